"""kafka-get-offsets: a line `topic:partition:offset` for each partition, by time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.client.admin.routing import metadata
from moldau.tools.kafka.lines.json_fields import whole
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.lines.topic_filter import topic_pattern
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries import reaching

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
Chosen = Callable[[str, int], bool]

PARSER = Parser(
    "kafka-get-offsets",
    "Shows offsets of partitions: the latest, the earliest, or those of a time.",
    (
        Option("bootstrap-server", "HOST1:PORT1,...,HOST3:PORT3", "The brokers.", required=True),
        reaching.BROKER_LIST,
        reaching.COMMAND_CONFIG,
        Option("topic", "topic", "The topic, or a regular expression; all topics if absent."),
        Option("partitions", "partition ids", "Numbers with commas; all partitions if absent."),
        Option(
            "topic-partitions",
            "topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
            "Topics (regular expressions) with partitions: a number, or from-to, where to is left out.",
        ),
        Option(
            "time",
            "<timestamp> / " + " / ".join(f"{number} or {name}" for name, number in TIMES.items()),
            "Of the first record since then (milliseconds since 1970), or one of these words.",
            default="latest",
        ),
        flag("exclude-internal-topics", "Leave out internal topics."),
    ),
)


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    try:
        given = PARSER.parse(words)
    except CommandLineError as problem:
        raise CommandLineError(f"Error occurred: {problem}", problem.hint) from None
    if not given.flag("broker-list"):
        PARSER.require(given, "bootstrap-server")
    try:
        chosen, time = _chosen(given), _time(given)
        with reaching.cluster(given) as cluster:
            _print(cluster, chosen, time, internal=not given.flag("exclude-internal-topics"))
    except CommandLineError as problem:
        raise CommandLineError(f"Error occurred: {problem}", problem.hint) from None
    except ToolError as problem:
        raise ToolError(f"Error occurred: {problem}") from None
    return 0


def _print(cluster: Cluster, chosen: Chosen, time: int, *, internal: bool) -> None:
    places = sorted(
        (topic.name, each.partition_index)
        for topic in metadata(cluster).topics
        if topic.name and (internal or not topic.is_internal)
        for each in topic.partitions
        if chosen(topic.name, each.partition_index)
    )
    if not places:
        raise ToolError("Could not match any topic-partitions with the specified filters")
    if time < 0 and time not in TIMES.values():
        return  # which brokers refuse; Kafka's tool prints nothing then
    offsets = cluster.offsets(dict.fromkeys(places, time))
    for topic, partition in places:
        if (offset := offsets.get((topic, partition), -1)) >= 0:
            print(f"{topic}:{partition}:{offset}")


def _time(given: Given) -> int:
    text = given.text("time") or "latest"
    try:
        return TIMES[text] if text in TIMES else whole(int(text), "time", 64)
    except ValueError:
        known = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
        raise ToolError(
            f"Malformed time argument {text}. Please use {known}, or a specified long format timestamp"
        ) from None


def _chosen(given: Given) -> Chosen:
    """Return a test for topic and partition, from --topic-partitions, or --topic and --partitions."""
    rules = given.text("topic-partitions")
    if rules is not None:
        if given.flag("topic") or given.flag("partitions"):
            raise CommandLineError(
                "--topic-partitions cannot be used with --topic or --partitions", "Leave out one of them."
            )
        tests = [_rule(each) for each in rules.split(",")]
        return lambda topic, partition: any(test(topic, partition) for test in tests)
    topic_text, numbers_text = given.text("topic"), given.text("partitions")
    matches = topic_pattern(topic_text) if topic_text is not None else lambda name: True
    try:
        numbers = {int(each) for each in numbers_text.split(",")} if numbers_text else None
    except ValueError:
        raise ToolError(
            "--partitions expects a comma separated list of numeric partition ids, but received: "
            f"{numbers_text}"
        ) from None
    return lambda topic, partition: matches(topic) and (numbers is None or partition in numbers)


def _rule(text: str) -> Chosen:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ToolError(f"Invalid rule specification: {text}")
    topic, number, low, high = found.groups()
    matches = topic_pattern(topic) if topic else lambda name: True
    if number:
        return lambda name, partition: matches(name) and partition == int(number)
    first, end = int(low or 0), int(high) if high else None
    return lambda name, partition: matches(name) and first <= partition and (end is None or partition < end)
