"""Confluent's names of operations, by which `api.endpoints.*` and `rate.limit.costs` choose them.

    api.v3.acls.*            all operations on ACLs
    api.v3.topics.delete     one

The middle is the kind of resource, the end what is done.
"""

from __future__ import annotations

from moldau.services.rest.v3.operations import Operation

_ENDS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
_CLUSTER = "/clusters/{cluster_id}"
_NAMES = {
    ("POST", _CLUSTER + "/acls:batch"): "acls.batch-create",
    ("DELETE", _CLUSTER + "/acls"): "acls.delete",
    ("POST", _CLUSTER + "/topics/{topic_name}/records"): "produce.produce-to-topic",
    ("POST", _CLUSTER + "/topics/{topic_name}/records:batch"): "batch-produce.produce-to-topic",
    ("GET", _CLUSTER + "/topics/{topic_name}/records"): "records.list",
    ("GET", _CLUSTER + "/topics/-/configs"): "topic-configs.list",
    ("POST", _CLUSTER + "/topics/-/configs:alter"): "topic-configs.alter-multi",
    ("GET", _CLUSTER + "/topics/{topic_name}/default-configs"): "topic-configs.list",
    ("GET", _CLUSTER + "/brokers/-/configs"): "broker-configs.list",
    ("GET", _CLUSTER + "/topics/-/partitions/-/reassignment"): "partition-reassignments.list-all",
    ("GET", _CLUSTER + "/topics/{topic_name}/partitions/-/reassignment"): (
        "partition-reassignments.search-by-topic"
    ),
    ("GET", _CLUSTER + "/topics/{topic_name}/partitions/{partition_id}/reassignment"): (
        "partition-reassignments.get"
    ),
    ("GET", _CLUSTER + "/topics/{topic_name}/partitions/{partition_id}/offset"): "partitions.list.offsets",
    ("GET", _CLUSTER + "/brokers/{broker_id}/partition-replicas"): "replicas.search-by-broker",
    ("GET", _CLUSTER + "/consumer-groups/{consumer_group_id}/lag-summary"): "consumer-group-lag-summary.get",
}
_KINDS = (
    ("/broker-configs", "cluster-configs"),
    ("/brokers/{broker_id}/configs", "broker-configs"),
    ("/topics/{topic_name}/configs", "topic-configs"),
    ("/consumers/{consumer_id}/assignments", "consumer-assignments"),
    ("/consumers", "consumers"),
    ("/lags", "consumer-lags"),
    ("/replicas", "replicas"),
    ("/partitions", "partitions"),
    ("/consumer-groups", "consumer-groups"),
    ("/topics", "topics"),
    ("/brokers", "brokers"),
    ("/acls", "acls"),
    ("/clusters", "clusters"),
)


def resource_name(operation: Operation) -> str:
    """The name of an operation."""
    method, path = operation.method, operation.path
    known = _NAMES.get((method, path))
    if known is not None:
        return f"api.v3.{known}"
    kind = next(name for part, name in _KINDS if part in path)
    if path.endswith(":alter"):
        end = "alter"
    elif method == "GET" and not path.endswith("}"):
        end = "list"
    elif method == "DELETE" and kind.endswith("-configs"):
        end = "reset"
    else:
        end = _ENDS[method]
    return f"api.v3.{kind}.{end}"
