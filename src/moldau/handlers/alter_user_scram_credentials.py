"""AlterUserScramCredentials, version 0: set or delete SCRAM credentials. Each user has one result.

A user may be named several times, once for each mechanism (Kafka allows one change of a user in a request). A
client that is logged in with what is changed stays so until it re-authenticates.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from moldau.controller.decision import RECORDS_MAX, TOO_LARGE, Outcome
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from moldau.controller.scram_users import ScramAlteration


@handles(AlterUserScramCredentialsRequest)
async def alter_user_scram_credentials(
    broker: Broker, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    slices = broker.slow_lane.slices()
    if len(request.deletions) + len(request.upsertions) > RECORDS_MAX:
        outcomes = await slices.run(_too_many(request))
    else:
        outcomes = await broker.controller.alter_scram_users(_asked(request))
    rows = await slices.run(_rows(outcomes))
    return AlterUserScramCredentialsResponse(results=rows)


def _asked(request: AlterUserScramCredentialsRequest) -> "list[ScramAlteration]":
    from moldau.controller.scram_users import ScramDeletion, ScramUpsertion

    return [
        *(ScramDeletion(each.name, each.mechanism) for each in request.deletions),
        *(
            ScramUpsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
            for each in request.upsertions
        ),
    ]


def _too_many(
    request: AlterUserScramCredentialsRequest,
) -> Generator[None, None, Sequence[tuple[str, Outcome]]]:
    outcomes: dict[str, Outcome] = {}
    for rows in (request.deletions, request.upsertions):
        for each in rows:
            outcomes[each.name] = TOO_LARGE
            yield
    return list(outcomes.items())


def _rows(
    outcomes: Sequence[tuple[str, Outcome]],
) -> Generator[None, None, list[AlterUserScramCredentialsResult]]:
    rows = []
    for user, outcome in outcomes:
        rows.append(
            AlterUserScramCredentialsResult(
                user=user, error_code=outcome.error_code, error_message=outcome.message
            )
        )
        yield
    return rows
