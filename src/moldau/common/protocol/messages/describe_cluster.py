"""DescribeCluster (key 60, versions 0-2): the cluster's id, controller and brokers.

v1   endpoint_type: brokers or controllers (KIP-919)
v2   include_fenced_brokers; answer: is_fenced (KIP-1073)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
)


@message(key=60, versions=(0, 2), flexible_from=0)
class DescribeClusterRequest(Message):
    """What to include."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: Bool = since(2)


@response_to(DescribeClusterRequest)
class DescribeClusterResponse(Message):
    """The cluster."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = array()
    cluster_authorized_operations: Int32 = -2147483648


class DescribeClusterBroker(Struct):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
    is_fenced: Bool = since(2)
