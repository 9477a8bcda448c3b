"""kafka-delete-records: deletes the records before offsets that a JSON file names.

{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}

Offset -1 stands for the high watermark: all records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.client.admin.routing import ask_broker, metadata
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.kafka.lines.json_fields import parse_json, text_field, whole_field
from moldau.tools.kafka.lines.options import Option, Parser
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.queries import reaching
from moldau.tools.kafka.queries.refusals import words_of

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

Place = tuple[str, int]
ANSWER_MS = 30_000
_EXCEPTIONS = {
    int(ErrorCode.OFFSET_OUT_OF_RANGE): "OffsetOutOfRangeException",
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): "UnknownTopicOrPartitionException",
    int(ErrorCode.TOPIC_AUTHORIZATION_FAILED): "TopicAuthorizationException",
    int(ErrorCode.POLICY_VIOLATION): "PolicyViolationException",
}

PARSER = Parser(
    "kafka-delete-records",
    "Deletes the records of partitions before given offsets.",
    (
        Option("bootstrap-server", "server(s) to use for bootstrapping", "The brokers.", required=True),
        Option("offset-json-file", "Offset json file path", "A file as shown above.", required=True),
        reaching.COMMAND_CONFIG,
    ),
)


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    given = PARSER.parse(words)
    PARSER.require_all(given)
    path = Path(given.text("offset-json-file") or "")
    try:
        offsets = read_offsets(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise ToolError(f"Unable to read file {path}: {why}") from None
    with reaching.cluster(given) as cluster:
        print("Executing records delete operation")
        outcome = _delete(cluster, offsets)
    print("Records delete operation completed:")
    for (topic, partition), said in outcome.items():
        print(f"partition: {topic}-{partition}\t{said}")
    return 0


def read_offsets(text: str) -> dict[Place, int]:
    """Read the file. ToolError in Kafka's words for what is no such file."""
    try:
        document = parse_json(text)
    except ValueError:
        raise ToolError("The input string is not a valid JSON") from None
    if not isinstance(document, dict) or "partitions" not in document:
        raise ToolError("Missing partitions field")
    version = document.get("version", 1)
    if version != 1:
        raise ToolError(f"Not supported version field value {version}")
    found: dict[Place, int] = {}
    double: list[str] = []
    rows = document["partitions"]
    if not isinstance(rows, list):
        raise ToolError("The field `partitions` is no list")
    for row in rows:
        place, offset = _place(row)
        if place in found:
            double.append(f"{place[0]}-{place[1]}")
        found[place] = offset
    if double:
        raise ToolError(f"Offset json file contains duplicate topic partitions: {','.join(double)}")
    return found


def _place(row: Any) -> tuple[Place, int]:
    for name in ("topic", "partition", "offset"):
        if not isinstance(row, dict) or name not in row:
            raise ToolError(f"No such field exists: `{name}`")
    try:
        place = (text_field(row, "topic"), whole_field(row, "partition"))
        return place, whole_field(row, "offset", 64)
    except ValueError as problem:
        raise ToolError(f"{problem}: {row}") from None


def _delete(cluster: Cluster, offsets: Mapping[Place, int]) -> dict[Place, str]:
    """Ask the leaders, one request each; return what became of each partition."""
    answer = metadata(cluster, {topic for topic, _ in offsets})
    leaders = {
        (topic.name, each.partition_index): each.leader_id
        for topic in answer.topics
        for each in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    outcome = {place: _error(unknown) for place in offsets if place not in leaders}
    for leader in sorted({leaders[place] for place in offsets if place in leaders}):
        mine = {place: offset for place, offset in offsets.items() if leaders.get(place) == leader}
        outcome |= _ask_leader(cluster, leader, mine)
    return {place: outcome[place] for place in offsets}


def _ask_leader(cluster: Cluster, leader: int, offsets: Mapping[Place, int]) -> dict[Place, str]:
    from moldau.common.protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    topics = [
        DeleteRecordsTopic(
            name=name,
            partitions=[
                DeleteRecordsPartition(partition_index=index, offset=offset)
                for (topic, index), offset in offsets.items()
                if topic == name
            ],
        )
        for name in dict.fromkeys(topic for topic, _ in offsets)
    ]
    answer = ask_broker(cluster, leader, DeleteRecordsRequest(topics=topics, timeout_ms=ANSWER_MS))
    return {
        (topic.name, each.partition_index): _error(each.error_code)
        if each.error_code
        else f"low_watermark: {each.low_watermark}"
        for topic in answer.topics
        for each in topic.partitions
    }


def _error(code: int) -> str:
    words = words_of(code)
    name = _EXCEPTIONS.get(int(code))
    return f"error: org.apache.kafka.common.errors.{name}: {words}" if name else f"error: {words}"
