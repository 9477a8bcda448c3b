"""The replicas of a partition."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from moldau.client.admin.topics import Partition
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import not_found
from moldau.services.rest.v3.operations import Right, operation
from moldau.services.rest.v3.partition_lookup import find_partition
from moldau.services.rest.v3.resources import collection, resource

_SEE_TOPIC = Right("read", "topic", "topic_name")
_TAG = "Replica (v3)"
_PATH = "/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/replicas"


@operation(
    "GET",
    _PATH,
    "listKafkaV3Replicas",
    "List the replicas of a partition",
    tag=_TAG,
    right=_SEE_TOPIC,
    answers={200: "ReplicaDataList"},
)
async def list_replicas(call: Call) -> Response:
    topic, part = call.path["topic_name"], await find_partition(call)
    base = ("clusters", call.cluster_id, "topics", topic, "partitions", part.partition_id)
    data = [replica_data(call, topic, part, broker_id) for broker_id in part.replicas]
    return call.answer(collection("KafkaReplicaList", call.links.url(*base, "replicas"), data))


@operation(
    "GET",
    _PATH + "/{broker_id}",
    "getKafkaV3Replica",
    "Describe a replica",
    tag=_TAG,
    right=_SEE_TOPIC,
    answers={200: "ReplicaData"},
)
async def get_replica(call: Call) -> Response:
    topic, part, broker_id = call.path["topic_name"], await find_partition(call), call.number("broker_id")
    if broker_id not in part.replicas:
        raise not_found(f"Broker {broker_id} has no replica of {topic}-{part.partition_id}.")
    return call.answer(replica_data(call, topic, part, broker_id))


def replica_data(call: Call, topic: str, part: Partition, broker_id: int) -> dict[str, Any]:
    """A replica as a resource."""
    links, cluster_id = call.links, call.cluster_id
    return resource(
        "KafkaReplica",
        links.url(
            "clusters", cluster_id, "topics", topic, "partitions", part.partition_id, "replicas", broker_id
        ),
        links.crn("kafka", cluster_id, "topic", topic, "partition", part.partition_id, "replica", broker_id),
        {
            "cluster_id": cluster_id,
            "topic_name": topic,
            "partition_id": part.partition_id,
            "broker_id": broker_id,
            "is_leader": broker_id == part.leader,
            "is_in_sync": broker_id in part.in_sync,
            "broker": links.related("clusters", cluster_id, "brokers", broker_id),
        },
    )
