"""The partitions of a topic, their offsets, and moves of them that are under way."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.responses import Response

from moldau.client.admin.layout import Place
from moldau.client.admin.reassignments import Move, find_moves
from moldau.client.admin.topics import NO_LEADER, Partition
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import not_found
from moldau.services.rest.v3.operations import Query, Right, operation
from moldau.services.rest.v3.partition_lookup import find_partition, find_topic
from moldau.services.rest.v3.resources import resource

_SEE_TOPIC = Right("read", "topic", "topic_name")
_TAG = "Partition (v3)"
_PATH = "/clusters/{cluster_id}/topics/{topic_name}/partitions"
_EARLIEST, _LATEST = -2, -1


@operation(
    "GET",
    _PATH,
    "listKafkaV3Partitions",
    "List the partitions of a topic",
    tag=_TAG,
    right=_SEE_TOPIC,
    answers={200: "PartitionDataList"},
)
async def list_partitions(call: Call) -> Response:
    topic = await find_topic(call)
    url = call.links.url("clusters", call.cluster_id, "topics", topic.name, "partitions")
    made = partial(_partition_data, call, topic.name)
    return await call.answer_list("KafkaPartitionList", url, topic.partitions, made)


@operation(
    "GET",
    _PATH + "/{partition_id}",
    "getKafkaV3Partition",
    "Describe a partition",
    tag=_TAG,
    right=_SEE_TOPIC,
    answers={200: "PartitionData"},
)
async def get_partition(call: Call) -> Response:
    return call.answer(_partition_data(call, call.path["topic_name"], await find_partition(call)))


def _partition_data(call: Call, topic: str, part: Partition) -> dict[str, Any]:
    links, base = call.links, ("clusters", call.cluster_id, "topics", topic, "partitions", part.partition_id)
    fields: dict[str, Any] = {
        "cluster_id": call.cluster_id,
        "topic_name": topic,
        "partition_id": part.partition_id,
    }
    if part.leader != NO_LEADER:
        fields["leader"] = links.related(*base, "replicas", part.leader)
    fields["replicas"] = links.related(*base, "replicas")
    fields["reassignment"] = links.related(*base, "reassignment")
    name = links.crn("kafka", call.cluster_id, "topic", topic, "partition", part.partition_id)
    return resource("KafkaPartition", links.url(*base), name, fields)


@operation(
    "GET",
    _PATH + "/{partition_id}/offset",
    "listKafkaV3PartitionOffsets",
    "The first and the next offset of a partition",
    tag=_TAG,
    right=_SEE_TOPIC,
    answers={200: "PartitionWithOffsetsData"},
    query=[Query("offset", "earliest or latest; both are answered.")],
)
async def get_offsets(call: Call) -> Response:
    wanted = (call.query("offset") or "earliest").lower()
    if wanted not in ("earliest", "latest"):
        raise HttpProblem(400, f"offset must be earliest or latest, and not {wanted!r}.")
    topic, part = call.path["topic_name"], await find_partition(call)
    place = (topic, part.partition_id)
    earliest = await call.ask(lambda cluster: cluster.offsets({place: _EARLIEST}))
    latest = await call.ask(lambda cluster: cluster.offsets({place: _LATEST}))
    links, base = call.links, ("clusters", call.cluster_id, "topics", topic, "partitions", part.partition_id)
    fields = {
        "cluster_id": call.cluster_id,
        "topic_name": topic,
        "partition_id": part.partition_id,
        "earliest_offset": earliest[place],
        "latest_offset": latest[place],
    }
    name = links.crn("kafka", call.cluster_id, "topic", topic, "partition", part.partition_id)
    return call.answer(resource("KafkaPartitionWithOffsets", links.url(*base, "offset"), name, fields))


@operation(
    "GET",
    "/clusters/{cluster_id}/topics/-/partitions/-/reassignment",
    "listKafkaV3Reassignments",
    "List the moves of partitions that are under way",
    tag=_TAG,
    right=Right("read", "cluster"),
    answers={200: "ReassignmentDataList"},
)
async def list_reassignments(call: Call) -> Response:
    return await _reassignments(call, await call.ask(find_moves), "-")


@operation(
    "GET",
    _PATH + "/-/reassignment",
    "searchKafkaV3ReassignmentsByTopic",
    "List the moves of a topic's partitions that are under way",
    tag=_TAG,
    right=_SEE_TOPIC,
    answers={200: "ReassignmentDataList"},
)
async def list_reassignments_of_topic(call: Call) -> Response:
    topic = await find_topic(call)
    asked = partial(
        find_moves, topic=topic.name, partitions=tuple(each.partition_id for each in topic.partitions)
    )
    return await _reassignments(call, await call.ask(asked), topic.name)


@operation(
    "GET",
    _PATH + "/{partition_id}/reassignment",
    "getKafkaV3Reassignment",
    "Describe the move of a partition that is under way",
    tag=_TAG,
    right=_SEE_TOPIC,
    answers={200: "ReassignmentData"},
)
async def get_reassignment(call: Call) -> Response:
    topic, part = call.path["topic_name"], await find_partition(call)
    found = await call.ask(partial(find_moves, topic=topic, partitions=(part.partition_id,)))
    if not found:
        raise not_found(f"{topic}-{part.partition_id} is not being moved.")
    return call.answer(_reassignment_data(call, *found.items()))


async def _reassignments(call: Call, found: dict[Place, Move], topic: str) -> Response:
    url = call.links.url("clusters", call.cluster_id, "topics", topic, "partitions", "-", "reassignment")
    return await call.answer_list(
        "KafkaReassignmentList", url, list(found.items()), partial(_reassignment_data, call)
    )


def _reassignment_data(call: Call, moved: tuple[Place, Move]) -> dict[str, Any]:
    (topic, index), move = moved
    links, base = (
        call.links,
        ("clusters", call.cluster_id, "topics", topic, "partitions", index),
    )
    return resource(
        "KafkaReassignment",
        links.url(*base, "reassignment"),
        links.crn("kafka", call.cluster_id, "topic", topic, "partition", index, "reassignment"),
        {
            "cluster_id": call.cluster_id,
            "topic_name": topic,
            "partition_id": index,
            "adding_replicas": list(move.adding),
            "removing_replicas": list(move.removing),
            "replicas": links.related(*base, "replicas"),
        },
    )
