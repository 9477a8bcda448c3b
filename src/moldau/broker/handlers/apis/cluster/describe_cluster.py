"""DescribeCluster, versions 0-2: the cluster's id, its controller and its brokers.

v1  asks for brokers or controllers (KIP-919); a broker knows of no controllers to connect to
v2  fenced brokers on request (KIP-1073)
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.cluster_view import UNKNOWN_OPERATIONS, ClusterView, reachable_brokers
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import cluster_operations
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2


@handles(DescribeClusterRequest)
def describe_cluster(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of type BROKER, but asks for one of type CONTROLLER"
                if known
                else f"Unsupported endpoint type {request.endpoint_type}"
            ),
        )
    image = broker.metadata.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=ClusterView(image, context.session.listener).controller_id(broker.node_id),
        brokers=[
            DescribeClusterBroker(
                broker_id=one.node_id, host=host, port=port, rack=one.rack, is_fenced=one.fenced
            )
            for one, host, port in reachable_brokers(
                image, context.session.listener, fenced=request.include_fenced_brokers
            )
        ],
        cluster_authorized_operations=(
            cluster_operations(broker, context.session)
            if request.include_cluster_authorized_operations
            else UNKNOWN_OPERATIONS
        ),
    )
