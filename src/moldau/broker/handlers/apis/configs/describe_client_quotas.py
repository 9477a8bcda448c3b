"""DescribeClientQuotas, versions 0-1: the quotas of users, client ids and addresses that a filter matches.

    v1  flexible
The client must have DescribeConfigs on the cluster. Not here: what a filter matches
(security/quotas/filters.py).
"""

from collections.abc import Generator

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from moldau.common.protocol.operations import Operation

_ORDER = ("ip", "client-id", "user")
"""In which Kafka lists the parts of an entity; programs compare the answers."""


@handles(DescribeClientQuotasRequest)
def describe_client_quotas(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> Generator[None, None, DescribeClientQuotasResponse]:
    if not may_on_cluster(broker, context.session, Operation.DESCRIBE_CONFIGS):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(code, code.message)
    from moldau.broker.security.quotas.filters import BadFilter, Component, UnknownType, component, matching

    components: dict[str, Component] = {}
    try:
        for asked in request.components:
            yield
            kind = asked.entity_type
            components[kind] = component(components, kind, asked.match_type, asked.match)
    except BadFilter as error:
        return _refused(ErrorCode.INVALID_REQUEST, str(error))
    except UnknownType as error:
        return _refused(ErrorCode.UNSUPPORTED_VERSION, str(error))
    entries = []
    for found in matching(broker.metadata.image.quotas, components, strict=request.strict):
        yield
        if found is not None:
            entity, values = found
            entries.append(
                EntryData(
                    entity=[
                        EntityData(entity_type=kind, entity_name=dict(entity)[kind])
                        for kind in sorted(dict(entity), key=_ORDER.index)
                    ],
                    values=[ValueData(key=key, value=value) for key, value in values.items()],
                )
            )
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _refused(error_code: ErrorCode, message: str) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error_code, error_message=message, entries=None)
