"""DescribeClientQuotas, versions 0-1: the quotas of users, client ids and addresses that a filter matches.

    v1  flexible
There are none: this version has no quotas (alter_client_quotas.py). Filters are checked, so that a wrong one
does not look like an empty result.
"""

from collections.abc import Sequence

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT = 0
_MATCH_TYPES = range(3)  # this name, the default, any name


@handles(DescribeClientQuotasRequest)
def describe_client_quotas(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    refused = _refusal(request.components)
    if refused is not None:
        code, message = refused
        return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)
    return DescribeClientQuotasResponse()


def _refusal(components: Sequence[ComponentData]) -> tuple[int, str] | None:
    types: set[str] = set()
    for component in components:
        entity_type = component.entity_type
        if not entity_type:
            return ErrorCode.INVALID_REQUEST, "Invalid empty entity type."
        if entity_type in types:
            message = f"Entity type {entity_type} cannot appear more than once in the filter."
            return ErrorCode.INVALID_REQUEST, message
        types.add(entity_type)
        if component.match_type not in _MATCH_TYPES:
            return ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}"
        if (component.match_type == EXACT) != (component.match is not None):
            message = f"A match type of {component.match_type} does not go with the name {component.match!r}."
            return ErrorCode.INVALID_REQUEST, message
        if entity_type not in (USER, CLIENT_ID, IP):
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}"
    if IP in types and len(types) > 1:
        return ErrorCode.INVALID_REQUEST, "A filter for ip cannot be combined with one for user or client-id."
    return None
