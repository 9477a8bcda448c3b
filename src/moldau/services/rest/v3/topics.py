"""Topics: listed, created, described, enlarged, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import Response

from moldau.client.admin.topics import (
    BROKER_DEFAULT,
    Topic,
    add_partitions,
    create_topic,
    delete_topic,
    describe_topics,
)
from moldau.common.protocol.operations import Operation as AclOperation
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3 import fields
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.operations import Query, Right, operation
from moldau.services.rest.v3.partition_lookup import find_topic
from moldau.services.rest.v3.resources import resource

_TAG = "Topic (v3)"
_PATH = "/clusters/{cluster_id}/topics"
_SEE_TOPIC = Right("read", "topic", "topic_name")
_OPERATIONS = Query(
    "include_authorized_operations",
    "Whether to say what this proxy's user of the cluster may do with the topic.",
    {"type": "boolean"},
)


@operation(
    "GET",
    _PATH,
    "listKafkaV3Topics",
    "List topics",
    tag=_TAG,
    right=Right("read", "topic"),
    answers={200: "TopicDataList"},
    query=[_OPERATIONS],
)
async def list_topics(call: Call) -> Response:
    asked = partial(describe_topics, operations=call.flag(_OPERATIONS.name))
    found = [each for each in await call.ask(asked) if call.may("read", "topic", each.name)]
    url = call.links.url("clusters", call.cluster_id, "topics")
    return await call.answer_list("KafkaTopicList", url, found, partial(_described_topic, call))


@operation(
    "POST",
    _PATH,
    "createKafkaV3Topic",
    "Create a topic, or check that it could be created",
    tag=_TAG,
    right=Right("configure", "topic"),
    answers={201: "TopicData", 200: "TopicData"},
    body="CreateTopicRequestData",
)
async def create(call: Call) -> Response:
    body = await call.body()
    name = fields.text(body, "topic_name")
    call.require("configure", "topic", name)
    partitions = fields.optional_number(body, "partitions_count", least=1)
    replication_factor = fields.optional_number(body, "replication_factor", least=1, most=32767)
    assignments = _assignments(body)
    validate_only = fields.flag(body, "validate_only")
    if assignments and (partitions is not None or replication_factor is not None):
        raise HttpProblem(
            400, "replicas_assignments cannot be used with partitions_count or replication_factor."
        )
    created = await call.ask(
        partial(
            create_topic,
            name=name,
            partitions=BROKER_DEFAULT if partitions is None else partitions,
            replication_factor=BROKER_DEFAULT if replication_factor is None else replication_factor,
            assignments=assignments,
            configs=_configs(body),
            validate_only=validate_only,
        )
    )
    data = _topic_data(
        call, name, False, max(0, created.replication_factor), max(0, created.partitions), None
    )
    answer = call.answer(data, 200 if validate_only else 201)
    if not validate_only:
        answer.headers["Location"] = data["metadata"]["self"]
    return answer


def _assignments(body: Mapping[str, Any]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for each in fields.objects(body, "replicas_assignments"):
        index = fields.optional_number(each, "partition_id", least=0)
        if index is None:
            raise HttpProblem(400, "partition_id is missing in replicas_assignments.")
        found[index] = fields.numbers(each, "broker_ids")
    return found


def _configs(body: Mapping[str, Any]) -> dict[str, str | None]:
    return {
        fields.text(each, "name"): fields.optional_scalar(each, "value")
        for each in fields.objects(body, "configs")
    }


@operation(
    "GET",
    _PATH + "/{topic_name}",
    "getKafkaV3Topic",
    "Describe a topic",
    tag=_TAG,
    right=_SEE_TOPIC,
    answers={200: "TopicData"},
    query=[_OPERATIONS],
)
async def get_topic(call: Call) -> Response:
    return call.answer(await _described(call, operations=call.flag(_OPERATIONS.name)))


@operation(
    "PATCH",
    _PATH + "/{topic_name}",
    "updatePartitionCountKafkaV3Topic",
    "Add partitions to a topic",
    tag=_TAG,
    right=Right("configure", "topic", "topic_name"),
    answers={200: "TopicData"},
    body="UpdatePartitionCountRequestData",
)
async def enlarge(call: Call) -> Response:
    count = fields.optional_number(await call.body(), "partitions_count", least=1)
    if count is None:
        raise HttpProblem(400, "partitions_count is missing.")
    await call.ask(partial(add_partitions, name=call.path["topic_name"], count=count))
    data = await _described(call)
    # Metadata may be a moment behind the broker that made the change.
    data["partitions_count"] = max(count, data["partitions_count"])
    return call.answer(data)


@operation(
    "DELETE",
    _PATH + "/{topic_name}",
    "deleteKafkaV3Topic",
    "Delete a topic",
    tag=_TAG,
    right=Right("delete", "topic", "topic_name"),
    answers={204: None},
)
async def delete(call: Call) -> Response:
    await call.ask(partial(delete_topic, name=call.path["topic_name"]))
    return call.done()


async def _described(call: Call, *, operations: bool = False) -> dict[str, Any]:
    return _described_topic(call, await find_topic(call, operations=operations))


def _described_topic(call: Call, topic: Topic) -> dict[str, Any]:
    counts = (topic.replication_factor, len(topic.partitions))
    return _topic_data(call, topic.name, topic.is_internal, *counts, topic.operations)


def _topic_data(
    call: Call,
    name: str,
    is_internal: bool,
    replication_factor: int,
    partitions: int,
    operations: tuple[int, ...] | None,
) -> dict[str, Any]:
    links, base = call.links, ("clusters", call.cluster_id, "topics", name)
    data: dict[str, Any] = {
        "cluster_id": call.cluster_id,
        "topic_name": name,
        "is_internal": is_internal,
        "replication_factor": replication_factor,
        "partitions_count": partitions,
        "partitions": links.related(*base, "partitions"),
        "configs": links.related(*base, "configs"),
        "partition_reassignments": links.related(*base, "partitions", "-", "reassignment"),
    }
    if operations is not None:
        known = {int(each): each.name for each in AclOperation}
        data["authorized_operations"] = [known.get(each, "UNKNOWN") for each in operations]
    return resource("KafkaTopic", links.url(*base), links.crn("kafka", call.cluster_id, "topic", name), data)
