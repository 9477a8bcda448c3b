"""kafka-log-dirs --describe: what lies in the brokers' log directories, as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from moldau.client.admin.log_dirs import LogDirectory, log_directories
from moldau.client.admin.topics import describe_cluster
from moldau.tools.kafka.lines.options import Option, Parser, flag
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.queries.reaching import BOOTSTRAP, COMMAND_CONFIG, cluster
from moldau.tools.kafka.queries.refusals import exception_name

PARSER = Parser(
    "kafka-log-dirs",
    "Shows what lies in the log directories of brokers.",
    [
        BOOTSTRAP,
        COMMAND_CONFIG,
        flag("describe", "Describe the log directories."),
        Option("topic-list", "topics", "Only these topics, separated by commas.", default=""),
        Option("broker-list", "brokers", 'Only these brokers, as "0,1,2".', default=""),
    ],
)


def main(words: Sequence[str]) -> int:
    """Print the directories. Returns the exit code."""
    given = PARSER.parse(words)
    PARSER.require(given, "bootstrap-server", "describe")
    topics = [each for each in (given.text("topic-list") or "").split(",") if each]
    with cluster(given) as one:
        existing = [each.broker_id for each in describe_cluster(one).brokers]
        brokers = _chosen(given.text("broker-list") or "", existing)
        print("Querying brokers for log directories information")
        found = {broker: log_directories(one, broker) for broker in brokers}
    print(f"Received log directory information from brokers {','.join(map(str, brokers))}")
    rows = [
        {"broker": broker, "logDirs": [_directory(each, topics) for each in directories]}
        for broker, directories in found.items()
    ]
    print(json.dumps({"brokers": rows, "version": 1}, separators=(",", ":"), ensure_ascii=False))
    return 0


def _chosen(text: str, existing: list[int]) -> list[int]:
    try:
        wanted = [int(each) for each in text.split(",") if each]
    except ValueError:
        raise ToolError(f"--broker-list {text} is not understood: write 0,1,2") from None
    unknown = [each for each in wanted if each not in existing]
    if unknown:
        raise ToolError(
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, unknown))}."
            f" Current existent brokers: {','.join(map(str, existing))}"
        )
    return list(dict.fromkeys(wanted)) or existing


def _directory(directory: LogDirectory, topics: Sequence[str]) -> dict[str, Any]:
    return {
        "partitions": [
            {
                "partition": f"{each.place[0]}-{each.place[1]}",
                "size": each.size_bytes,
                "offsetLag": each.offset_lag,
                "isFuture": each.is_future,
            }
            for each in directory.replicas
            if not topics or each.place[0] in topics
        ],
        "error": exception_name(directory.error_code) if directory.error_code else None,
        "logDir": directory.path,
    }
