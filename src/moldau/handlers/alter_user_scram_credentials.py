"""AlterUserScramCredentials, version 0: set or delete SCRAM credentials.

This version serves no SASL and stores no credentials. What Kafka would refuse is refused with the same
message; a valid change gets UNSUPPORTED_SASL_MECHANISM with a message, not a success without effect. There is
no credential to delete.
"""

from collections.abc import Generator

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)

MECHANISMS = (1, 2)  # SCRAM-SHA-256, SCRAM-SHA-512
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384

Outcome = tuple[int, str]


@handles(AlterUserScramCredentialsRequest)
def alter_user_scram_credentials(
    broker: Broker, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Generator[None, None, AlterUserScramCredentialsResponse]:
    outcomes: dict[str, Outcome] = {}
    seen: set[tuple[str, int]] = set()

    def note(name: str, mechanism: int, outcome: Outcome) -> None:
        if (name, mechanism) in seen:
            message = "A user credential cannot be altered twice in the same request"
            outcome = (ErrorCode.DUPLICATE_RESOURCE, message)
        seen.add((name, mechanism))
        if name not in outcomes or outcome[0] == ErrorCode.DUPLICATE_RESOURCE:
            outcomes[name] = outcome

    for deletion in request.deletions:
        note(deletion.name, deletion.mechanism, _deletion(deletion.name, deletion.mechanism))
        yield
    for upsertion in request.upsertions:
        note(upsertion.name, upsertion.mechanism, _upsertion(upsertion))
        yield
    rows = []
    for name, (code, message) in outcomes.items():
        rows.append(AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message))
        yield
    return AlterUserScramCredentialsResponse(results=rows)


def _refusal(name: str, mechanism: int) -> Outcome | None:
    if not name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _deletion(name: str, mechanism: int) -> Outcome:
    return _refusal(name, mechanism) or (
        ErrorCode.RESOURCE_NOT_FOUND,
        "Attempt to delete a user credential that does not exist",
    )


def _upsertion(upsertion: ScramCredentialUpsertion) -> Outcome:
    refused = _refusal(upsertion.name, upsertion.mechanism)
    if refused is not None:
        return refused
    if upsertion.iterations < ITERATIONS_MIN:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if upsertion.iterations > ITERATIONS_MAX:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    message = "This version of Moldau serves no SASL: credentials are not stored."
    return ErrorCode.UNSUPPORTED_SASL_MECHANISM, message
