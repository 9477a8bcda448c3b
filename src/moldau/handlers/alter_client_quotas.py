"""AlterClientQuotas, versions 0-1: set or remove quotas of users, client ids and addresses.

    v1  flexible
This version enforces no quotas, so none can be set: UNSUPPORTED_VERSION with a message, not a success without
effect. Removing a quota that does not exist succeeds, as in Kafka.
"""

from collections.abc import Generator

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.describe_client_quotas import CLIENT_ID, IP, USER
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    ResponseEntryData,
)

RATES = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
ENTITY_PARTS_MAX = 2  # a user with a client id
CONNECTION_RATES = frozenset({"connection_creation_rate"})


@handles(AlterClientQuotasRequest)
def alter_client_quotas(
    broker: Broker, context: RequestContext, request: AlterClientQuotasRequest
) -> Generator[None, None, AlterClientQuotasResponse]:
    rows = []
    for entry in request.entries:
        code, message = yield from _outcome(entry)
        rows.append(ResponseEntryData(error_code=code, error_message=message, entity=entry.entity))
    return AlterClientQuotasResponse(entries=rows)


def _outcome(entry: EntryData) -> Generator[None, None, tuple[int, str | None]]:
    yield
    types = [one.entity_type for one in entry.entity[: ENTITY_PARTS_MAX + 1]]
    if not types:
        return ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity"
    for entity_type in types:
        if entity_type not in (USER, CLIENT_ID, IP):
            return ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {entity_type}"
    if len(set(types)) < len(types) or (IP in types and len(types) > 1):
        return ErrorCode.INVALID_REQUEST, f"Invalid client quota entity: {', '.join(types)}"
    keys = CONNECTION_RATES if IP in types else RATES
    sets = False
    for op in entry.ops:
        yield
        if op.key not in keys:
            return ErrorCode.INVALID_REQUEST, f"Invalid configuration key {op.key}"
        sets = sets or not op.remove
    if sets:
        message = "This version of Moldau slows down no client: quotas cannot be set."
        return ErrorCode.UNSUPPORTED_VERSION, message
    return ErrorCode.NONE, None
