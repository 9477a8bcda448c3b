"""AlterUserScramCredentials, version 0: set or delete SCRAM credentials. Each user has one result.

A user may be named several times, once for each mechanism (Kafka allows one change of a user in a request). A
client that is logged in with what is changed stays so until it re-authenticates. The client must have Alter
on the cluster.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from moldau.broker.controller.decision import RECORDS_MAX, TOO_LARGE, Outcome
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from moldau.common.protocol.operations import Operation

if TYPE_CHECKING:
    from moldau.broker.controller.scram_users import ScramAlteration


@handles(AlterUserScramCredentialsRequest)
async def alter_user_scram_credentials(
    broker: Broker, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    slices = broker.slow_lane.slices()
    if not may_on_cluster(broker, context.session, Operation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        outcomes = await slices.run(_for_all(request, Outcome(code, code.message)))
    elif len(request.deletions) + len(request.upsertions) > RECORDS_MAX:
        outcomes = await slices.run(_for_all(request, TOO_LARGE))
    else:
        outcomes = await broker.controller.alter_scram_users(_asked(request))
    rows = await slices.run(_rows(outcomes))
    return AlterUserScramCredentialsResponse(results=rows)


def _asked(request: AlterUserScramCredentialsRequest) -> "list[ScramAlteration]":
    from moldau.broker.controller.scram_users import ScramDeletion, ScramUpsertion

    return [
        *(ScramDeletion(each.name, each.mechanism) for each in request.deletions),
        *(
            ScramUpsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
            for each in request.upsertions
        ),
    ]


def _for_all(
    request: AlterUserScramCredentialsRequest, outcome: Outcome
) -> Generator[None, None, Sequence[tuple[str, Outcome]]]:
    outcomes: dict[str, Outcome] = {}
    for rows in (request.deletions, request.upsertions):
        for each in rows:
            outcomes[each.name] = outcome
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
