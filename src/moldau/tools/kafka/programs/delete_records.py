"""kafka-delete-records: deletes the records before offsets that a JSON file names.

{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}

Offset -1 stands for the high watermark: all records.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moldau.client.admin.layout import Place
from moldau.client.admin.records import delete_records
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.kafka.lines.json_fields import parse_json, text_field, whole_field
from moldau.tools.kafka.lines.options import Option, Parser
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.queries import reaching
from moldau.tools.kafka.queries.refusals import words_of

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
        outcome = delete_records(cluster, offsets)
    print("Records delete operation completed:")
    for (topic, partition), each in outcome.items():
        said = _error(each.error_code) if each.error_code else f"low_watermark: {each.low_watermark}"
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


def _error(code: int) -> str:
    words = words_of(code)
    name = _EXCEPTIONS.get(int(code))
    return f"error: org.apache.kafka.common.errors.{name}: {words}" if name else f"error: {words}"
