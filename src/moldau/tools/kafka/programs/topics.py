"""kafka-topics: creates, lists, describes, alters and deletes topics.

What is described is laid out by the same code as `moldau topics describe` (commands/topics/description.py). A
failure of the broker is a line on standard output, as in Kafka.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.routing import metadata
from moldau.client.admin.topics import (
    BROKER_DEFAULT,
    NewTopic,
    create_topics,
    delete_topics,
    enlarge_topics,
    raise_first,
)
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.kafka.java.java_map_order import map_order
from moldau.tools.kafka.java.java_split import split_as_java
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.lines.topic_filter import choose
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries import reaching
from moldau.tools.kafka.queries.refusals import told

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

ACTIONS = ("alter", "create", "describe", "list", "delete")
_COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore "
    "('_') could collide. To avoid issues it is best to use either, but not both."
)
_USE_CONFIGS = " (To alter topic configurations, the kafka-configs tool can be used.)"
_ONE_ACTION = "Command must include exactly one action: --list, --describe, --create, --alter or --delete"

PARSER = Parser(
    "kafka-topics",
    "Creates, lists, describes, alters and deletes topics.",
    (
        reaching.BOOTSTRAP,
        reaching.ZOOKEEPER,
        reaching.COMMAND_CONFIG,
        flag("create", "Create a topic."),
        flag("list", "List the topics."),
        flag("describe", "Show the partitions and settings of topics."),
        flag("alter", "Add partitions."),
        flag("delete", "Delete topics."),
        Option("topic", "topic", "The topic; except with --create a regular expression."),
        Option("topic-id", "topic-id", "With --describe: the topic of this id."),
        Option("partitions", "# of partitions", "How many partitions; the cluster's default if absent.", int),
        Option("replication-factor", "replication factor", "Replicas of each partition.", int),
        Option(
            "replica-assignment",
            "broker_id_for_part1_replica1 : broker_id_for_part1_replica2 , ...",
            "Brokers of each partition, instead of --partitions and --replication-factor.",
        ),
        Option("config", "name=value", "With --create: a setting of the topic. May be repeated."),
        Option("delete-config", "name", "No longer supported, and ignored: see kafka-configs."),
        flag("if-exists", "With --alter, --delete, --describe: no error if the topic does not exist."),
        flag("if-not-exists", "With --create: no error if the topic exists."),
        flag("exclude-internal", "Leave out internal topics."),
        flag("under-replicated-partitions", "With --describe: only under-replicated partitions."),
        flag("unavailable-partitions", "With --describe: only partitions without a leader."),
        flag("under-min-isr-partitions", "With --describe: only partitions below min.insync.replicas."),
        flag("at-min-isr-partitions", "With --describe: only partitions at min.insync.replicas."),
        flag("topics-with-overrides", "With --describe: only topics with settings of their own."),
        Option(
            "partition-size-limit-per-response", "maximum number of partitions per response", "None.", int
        ),
    ),
)
_REPORTS = {
    "under-replicated-partitions": "under_replicated",
    "unavailable-partitions": "unavailable",
    "under-min-isr-partitions": "under_min_isr",
    "at-min-isr-partitions": "at_min_isr",
}


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    given = PARSER.parse(words)
    _check(given)
    if given.flag("delete-config"):
        print(
            "delete-config option is no longer supported and deprecated since version 4.0. "
            "The config will be fully removed in future releases.",
            file=sys.stderr,
        )
    with reaching.cluster(given) as cluster:
        try:
            for action, act in _ACTS.items():
                if given.flag(action):
                    act(cluster, given)
        except (ToolError, KafkaProblem) as problem:
            text = f"Error while executing topic command : {told(problem)}"
            raise ToolError(text, on_stdout=True) from None
    return 0


def _check(given: Given) -> None:
    """Raise CommandLineError for options that lack or exclude each other, in Kafka's order."""
    if sum(given.flag(each) for each in ACTIONS) != 1:
        raise CommandLineError(_ONE_ACTION, f"All options: {PARSER.tool} --help")
    if not given.flag("bootstrap-server") and not given.flag("zookeeper"):
        line = PARSER.line([*given.typed, "--bootstrap-server", reaching.DEFAULT_SERVER])
        raise CommandLineError("--bootstrap-server must be specified", line)
    if (not given.flag("list") and not given.flag("describe")) or (
        given.flag("describe") and given.flag("if-exists") and not given.flag("topic-id")
    ):
        PARSER.require(given, "topic")
    if given.flag("alter"):
        if given.flag("config"):
            raise CommandLineError(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]"'
                + _USE_CONFIGS,
                f"Type: kafka-configs --bootstrap-server {given.text('bootstrap-server')} --topic "
                f"{given.text('topic')} --alter --add-config {','.join(given.texts('config'))}",
            )
        PARSER.require(given, "partitions")
    for name, allowed in (
        ("config", ("alter", "create")),
        ("partitions", ("alter", "create")),
        ("replication-factor", ("create",)),
        ("replica-assignment", ("alter", "create")),
    ):
        PARSER.exclude(given, name, *(each for each in ACTIONS if each not in allowed))
    if given.flag("create"):
        PARSER.exclude(given, "replica-assignment", "partitions", "replication-factor")
    others = tuple(each for each in ACTIONS if each != "describe")
    for report in _REPORTS:
        PARSER.exclude(given, report, *others, "topics-with-overrides")
    PARSER.exclude(given, "topics-with-overrides", *others)
    PARSER.exclude(given, "if-exists", "create", "list")
    PARSER.exclude(given, "if-not-exists", "alter", "delete", "describe", "list")
    PARSER.exclude(given, "exclude-internal", "create", "alter", "delete")


def _create(cluster: Cluster, given: Given) -> None:
    name = given.text("topic") or ""
    partitions, factor = _number(given, "partitions"), _number(given, "replication-factor")
    if partitions is not None and partitions < 1:
        raise ToolError("The partitions must be greater than 0")
    if factor is not None and not 1 <= factor <= 32767:
        raise ToolError("The replication factor must be between 1 and 32767 inclusive")
    assignment = parse_assignment(given.text("replica-assignment"))
    settings = parse_settings(given.texts("config"))
    if "." in name or "_" in name:
        print(_COLLISION)
    if not name:
        raise ToolError("The given topic name '' cannot be represented in a request.")
    topic = NewTopic(
        name, partitions or BROKER_DEFAULT, factor or BROKER_DEFAULT, dict(enumerate(assignment)), settings
    )
    _, refused = create_topics(cluster, [topic])
    for problem in refused.values():
        if problem.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and given.flag("if-not-exists"):
            return
        raise problem
    print(f"Created topic {name}.")


def _number(given: Given, name: str) -> int | None:
    try:
        return given.number(name)
    except CommandLineError as problem:
        raise ToolError(str(problem)) from None


def parse_assignment(text: str | None) -> list[list[int]]:
    """Parse `1:2,2:3`: the brokers of each partition. ToolError in Kafka's words."""
    partitions: list[list[int]] = []
    for index, part in enumerate(split_as_java(text, ",") if text else []):
        brokers = []
        for word in split_as_java(part, ":"):
            if not re.fullmatch(r"[+-]?\d+", word.strip()):
                raise ToolError(f'For input string: "{word.strip()}"')
            brokers.append(int(word))
        double = sorted({each for each in brokers if brokers.count(each) > 1})
        if double:
            raise ToolError(
                f"Partition replica lists may not contain duplicate entries: {', '.join(map(str, double))}"
            )
        if partitions and len(brokers) != len(partitions[0]):
            raise ToolError(f"Partition {index} has different replication factor: {brokers}")
        partitions.append(brokers)
    return partitions


def parse_settings(words: Sequence[str]) -> dict[str, str]:
    """Parse name=value words. ToolError in Kafka's words."""
    found = {}
    for word in words:
        parts = split_as_java(word, "=")
        if len(parts) != 2:
            raise ToolError(
                "requirement failed: Invalid topic config: all configs to be added must be in the format "
                '"key=val".'
            )
        found[parts[0].strip()] = parts[1].strip()
    return found


def _list(cluster: Cluster, given: Given) -> None:
    print("\n".join(_names(cluster, given)))


def _names(cluster: Cluster, given: Given) -> list[str]:
    topics = metadata(cluster).topics
    internal = not given.flag("exclude-internal")
    names = [each.name for each in topics if each.name and (internal or not each.is_internal)]
    return choose(names, given.text("topic"))


def _existing(cluster: Cluster, given: Given) -> list[str]:
    """Return the topics that --topic names. ToolError if there are none, unless --if-exists."""
    names = _names(cluster, given)
    text = given.text("topic")
    if not names and text is not None and not given.flag("if-exists"):
        raise ToolError(f"Topic '{text}' does not exist as expected")
    return names


def _describe(cluster: Cluster, given: Given) -> None:
    from moldau.tools.commands.topics.description import Filter, kafka_lines
    from moldau.tools.commands.topics.description import describe_topics as load

    _number(given, "partition-size-limit-per-response")
    wanted = Filter(
        **{field: given.flag(name) for name, field in _REPORTS.items()},
        with_overrides=given.flag("topics-with-overrides"),
    )
    names = _named_by_id(cluster, given) if given.flag("topic-id") else None
    for topic in load(cluster, _existing(cluster, given) if names is None else names):
        if wanted.with_overrides:
            if topic.not_default:
                print(kafka_lines(topic, topic.not_default, map_order).partition("\n")[0])
            continue
        lines = kafka_lines(topic, topic.not_default, map_order).split("\n")
        if not wanted.by_partition:
            print("\n".join(lines))
            continue
        minimum = int(topic.settings.get("min.insync.replicas", ("1", 5))[0] or 1)
        for partition, line in zip(topic.partitions, lines[1:], strict=True):
            if wanted.keeps(partition, minimum):
                print(line)


def _named_by_id(cluster: Cluster, given: Given) -> list[str] | None:
    """Return the topic that --topic-id names; None for the id of zeros, which names none."""
    from moldau.common.core.ids import uuid_to_text

    text = given.text("topic-id") or ""
    if len(text) != 22:
        raise ToolError(
            f"{text} is no topic id: those have 22 characters, as kafka-topics --describe shows them"
        )
    if text == "A" * 22:
        return None
    names = [each.name for each in metadata(cluster).topics if uuid_to_text(each.topic_id) == text]
    if not names and not given.flag("if-exists"):
        raise ToolError(f"TopicId '{text}' does not exist as expected")
    return names


def _alter(cluster: Cluster, given: Given) -> None:
    names = _existing(cluster, given)
    counts = {each.name: len(each.partitions) for each in metadata(cluster, names).topics} if names else {}
    count = _number(given, "partitions") or 0
    added = None
    if given.flag("replica-assignment"):
        rows = parse_assignment(given.text("replica-assignment"))
        added = {name: rows[counts[name] :] for name in names}
    raise_first(enlarge_topics(cluster, dict.fromkeys(names, count), assignments=added))


def _delete(cluster: Cluster, given: Given) -> None:
    raise_first(delete_topics(cluster, _existing(cluster, given)))


_ACTS = {"create": _create, "alter": _alter, "list": _list, "describe": _describe, "delete": _delete}
