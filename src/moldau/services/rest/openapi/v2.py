"""Version 2's operations and objects for the document; the operations themselves are in rest/v2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from moldau.services.rest.openapi.types import (
    ANYTHING,
    FLAG,
    INTEGER,
    LONG,
    TEXT,
    Schema,
    list_of,
    nullable,
    obj,
    optional,
    ref,
)

_V2 = "application/vnd.kafka.v2+json"
_FORMATS = ("json", "binary", "avro", "jsonschema", "protobuf")
_EMBEDDED = tuple(f"application/vnd.kafka.{each}.v2+json" for each in _FORMATS)
_TOPICS, _CONSUMERS, _BROKERS = "Topics (v2)", "Consumers (v2)", "Brokers (v2)"
_INSTANCE = "/consumers/{group}/instances/{instance}"
_PARTITION = "/topics/{topic}/partitions/{partition}"
_NUMBERS = ("partition",)
_PLACE = {"topic": TEXT, "partition": INTEGER}
_HEADERS = optional(list_of(ref("ProduceRequestHeader")))
_EXTRAS = {"timestamp": optional(nullable(LONG)), "headers": _HEADERS}
_SCHEMAS_OF_RECORDS = {
    "key_schema": optional(nullable(TEXT)),
    "key_schema_id": optional(nullable(INTEGER)),
    "value_schema": optional(nullable(TEXT)),
    "value_schema_id": optional(nullable(INTEGER)),
}


def _produce_request(format_name: str, *, with_partition: bool) -> Schema:
    """The records of a request: a format with a schema of its own, so that clients know the media type."""
    data = nullable(TEXT) if format_name == "binary" else ANYTHING
    where = {"partition": optional(nullable(INTEGER))} if with_partition else {}
    record = obj(key=optional(data), value=optional(data), **where, **_EXTRAS)
    return obj(**({} if format_name in ("binary", "json") else _SCHEMAS_OF_RECORDS), records=list_of(record))


def _request_name(format_name: str, target: str) -> str:
    shown = {"jsonschema": "JsonSchema"}.get(format_name, format_name.capitalize())
    return f"V2{shown}{target}ProduceRequest"


_REQUESTS = {
    _request_name(each, target): _produce_request(each, with_partition=target == "Topic")
    for target in ("Topic", "Partition")
    for each in _FORMATS
}

SCHEMAS: dict[str, Schema] = {
    **_REQUESTS,
    "V2Topic": obj(name=TEXT, configs=ANYTHING, partitions=list_of(ref("V2Partition"))),
    "V2Partition": obj(
        partition=INTEGER,
        leader=INTEGER,
        replicas=list_of(ref("V2Replica")),
    ),
    "V2Replica": obj(broker=INTEGER, leader=FLAG, in_sync=FLAG),
    "V2PartitionOffsets": obj(beginning_offset=LONG, end_offset=LONG),
    "V2Brokers": obj(brokers=list_of(INTEGER)),
    "V2ProduceResponse": obj(
        offsets=list_of(
            obj(
                partition=optional(nullable(INTEGER)),
                offset=optional(nullable(LONG)),
                error_code=optional(nullable(INTEGER)),
                error=optional(nullable(TEXT)),
            )
        ),
        key_schema_id=optional(nullable(INTEGER)),
        value_schema_id=optional(nullable(INTEGER)),
    ),
    "V2CreateInstanceRequest": {
        "type": "object",
        "description": "name, format, and settings of the consumer such as auto.offset.reset.",
        "additionalProperties": True,
    },
    "V2Instance": obj(instance_id=TEXT, base_uri=TEXT),
    "V2Subscription": obj(topics=optional(list_of(TEXT)), topic_pattern=optional(TEXT)),
    "V2SubscriptionResponse": obj(topics=list_of(TEXT)),
    "V2Assignments": obj(partitions=list_of(ref("V2Place"))),
    "V2Offsets": obj(offsets=list_of(ref("V2Offset"))),
    "V2Place": obj(**_PLACE),
    "V2Offset": obj(**_PLACE, offset=LONG, metadata=optional(nullable(TEXT))),
    "V2Record": obj(
        topic=TEXT,
        key=ANYTHING,
        value=ANYTHING,
        partition=INTEGER,
        offset=LONG,
        timestamp=optional(nullable(LONG)),
        headers=_HEADERS,
    ),
}


def _operation(
    operation_id: str,
    summary: str,
    tag: str,
    path: str,
    *,
    answer: Schema | None = None,
    body: str | None = None,
    produces_to: str | None = None,
    answers: tuple[str, ...] = (_V2,),
    query: Mapping[str, Schema] | None = None,
    body_required: bool = True,
) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": operation_id, "summary": summary, "tags": [tag]}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": INTEGER if name in _NUMBERS else TEXT}
        for name in re.findall(r"{(\w+)}", path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in (query or {}).items()
    ]
    if parameters:
        made["parameters"] = parameters
    if body is not None:
        made["requestBody"] = {"required": body_required, "content": {_V2: {"schema": ref(body)}}}
    elif produces_to is not None:
        content = {
            media_type: {"schema": ref(_request_name(name, produces_to))}
            for name, media_type in zip(_FORMATS, _EMBEDDED, strict=True)
        }
        # Not marked as required: openapi-python-client makes no usable client of several bodies that are.
        made["requestBody"] = {"content": content}
    error = {"description": "An error.", "content": {_V2: {"schema": ref("Error")}}}
    if answer is None:
        made["responses"] = {"204": {"description": "Done"}, "default": error}
    else:
        content = {each: {"schema": answer} for each in answers}
        made["responses"] = {"200": {"description": "OK", "content": content}, "default": error}
    return made


def paths() -> dict[str, dict[str, Any]]:
    """The paths with their operations by method."""
    reading = {"timeout": INTEGER, "max_bytes": LONG, "include": TEXT}
    table: tuple[tuple[str, str, str, str, str, dict[str, Any]], ...] = (
        ("get", "/topics", "listTopicsV2", "List topics", _TOPICS, {"answer": list_of(TEXT)}),
        (
            "get",
            "/topics/{topic}",
            "getTopicV2",
            "Describe a topic",
            _TOPICS,
            {"answer": ref("V2Topic")},
        ),
        (
            "post",
            "/topics/{topic}",
            "produceV2",
            "Write records to a topic",
            _TOPICS,
            {"answer": ref("V2ProduceResponse"), "produces_to": "Topic"},
        ),
        (
            "get",
            "/topics/{topic}/partitions",
            "listPartitionsV2",
            "List the partitions of a topic",
            _TOPICS,
            {"answer": list_of(ref("V2Partition"))},
        ),
        (
            "get",
            _PARTITION,
            "getPartitionV2",
            "Describe a partition",
            _TOPICS,
            {"answer": ref("V2Partition")},
        ),
        (
            "post",
            _PARTITION,
            "producePartitionV2",
            "Write records to a partition",
            _TOPICS,
            {"answer": ref("V2ProduceResponse"), "produces_to": "Partition"},
        ),
        (
            "get",
            _PARTITION + "/offsets",
            "getPartitionOffsetsV2",
            "The first and the next offset of a partition",
            _TOPICS,
            {"answer": ref("V2PartitionOffsets")},
        ),
        (
            "get",
            "/brokers",
            "listBrokersV2",
            "List the ids of brokers",
            _BROKERS,
            {"answer": ref("V2Brokers")},
        ),
        (
            "post",
            "/consumers/{group}",
            "createConsumerV2",
            "Begin a consumer session",
            _CONSUMERS,
            {"answer": ref("V2Instance"), "body": "V2CreateInstanceRequest"},
        ),
        ("delete", _INSTANCE, "deleteConsumerV2", "End a consumer session", _CONSUMERS, {}),
        (
            "get",
            _INSTANCE + "/offsets",
            "getCommittedOffsetsV2",
            "Committed offsets of partitions, which stand in the request's body",
            _CONSUMERS,
            {"answer": ref("V2Offsets")},
        ),
        (
            "post",
            _INSTANCE + "/offsets",
            "commitOffsetsV2",
            "Commit offsets; without a body, the positions",
            _CONSUMERS,
            {
                "body": "V2Offsets",
                "body_required": False,
                "answer": list_of(TEXT),
                "query": {"async": FLAG},
            },
        ),
        (
            "post",
            _INSTANCE + "/subscription",
            "subscribeV2",
            "Subscribe to topics",
            _CONSUMERS,
            {"body": "V2Subscription"},
        ),
        (
            "get",
            _INSTANCE + "/subscription",
            "getSubscriptionV2",
            "The topics that are subscribed to",
            _CONSUMERS,
            {"answer": ref("V2SubscriptionResponse")},
        ),
        ("delete", _INSTANCE + "/subscription", "unsubscribeV2", "Unsubscribe", _CONSUMERS, {}),
        (
            "post",
            _INSTANCE + "/assignments",
            "assignV2",
            "Assign partitions",
            _CONSUMERS,
            {"body": "V2Assignments"},
        ),
        (
            "get",
            _INSTANCE + "/assignments",
            "getAssignmentsV2",
            "The partitions that are assigned",
            _CONSUMERS,
            {"answer": ref("V2Assignments")},
        ),
        ("post", _INSTANCE + "/positions", "seekV2", "Set positions", _CONSUMERS, {"body": "V2Offsets"}),
        (
            "post",
            _INSTANCE + "/positions/beginning",
            "seekToBeginningV2",
            "Go to the first offsets",
            _CONSUMERS,
            {"body": "V2Assignments"},
        ),
        (
            "post",
            _INSTANCE + "/positions/end",
            "seekToEndV2",
            "Go to the ends",
            _CONSUMERS,
            {"body": "V2Assignments"},
        ),
        (
            "get",
            _INSTANCE + "/records",
            "consumeV2",
            "Read records",
            _CONSUMERS,
            {"answer": list_of(ref("V2Record")), "answers": _EMBEDDED, "query": reading},
        ),
    )
    found: dict[str, dict[str, Any]] = {}
    for method, path, operation_id, summary, tag, details in table:
        found.setdefault(path, {})[method] = _operation(operation_id, summary, tag, path, **details)
    return found
