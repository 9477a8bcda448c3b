"""ListConfigResources, versions 0-1: the names of resources with settings.

v0  client-metrics subscriptions only, of which this broker has none
v1  any resource type (KIP-1142)

The client must have DescribeConfigs on the cluster.
"""

from collections.abc import Iterable

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.metadata.image import Image, ResourceType
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from moldau.common.protocol.operations import Operation

_SUPPORTED = frozenset(ResourceType) - {ResourceType.UNKNOWN}


@handles(ListConfigResourcesRequest)
def list_config_resources(
    broker: Broker, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    if not may_on_cluster(broker, context.session, Operation.DESCRIBE_CONFIGS):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ListConfigResourcesResponse(error_code=code, config_resources=[])
    if context.api_version == 0:
        return ListConfigResourcesResponse(config_resources=[])
    wanted = set(request.resource_types) or set(_SUPPORTED)
    if not wanted <= _SUPPORTED:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in _names(broker.metadata.image, kind)
        ]
    )


def _names(image: Image, kind: int) -> Iterable[str]:
    if kind == ResourceType.TOPIC:
        return image.topics
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return map(str, sorted(image.brokers))
    return [name for resource_type, name in image.configs if resource_type == kind]
