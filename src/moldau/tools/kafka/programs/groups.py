"""kafka-groups --list: groups of every kind, with type and protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.common.protocol.messages.list_groups import ListGroupsRequest
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries.brokers import ask, metadata, raise_for
from moldau.tools.kafka.queries.reaching import COMMAND_CONFIG, cluster

TYPES = ("classic", "consumer", "share", "streams")
_WIDTH_MIN = 20

PARSER = Parser(
    "kafka-groups",
    "Lists groups of all kinds.",
    [
        Option("bootstrap-server", "server to connect to", "A broker.", required=True),
        COMMAND_CONFIG,
        flag("list", "List the groups."),
        Option("group-type", "type", f"Only this type: {', '.join(TYPES)}."),
        Option("protocol", "protocol", "Only this protocol type, such as consumer."),
        flag("consumer", "Only consumer groups, classic ones included."),
        flag("share", "Only share groups."),
        flag("streams", "Only streams groups."),
    ],
)


def main(words: Sequence[str]) -> int:
    """Print the groups. Returns the exit code."""
    given = PARSER.parse(words, needs_words=False)
    if not given.flag("bootstrap-server"):
        line = PARSER.line([*given.typed, "--bootstrap-server", "localhost:9092"])
        raise CommandLineError("Missing required option(s) [bootstrap-server]", line)
    if not given.flag("list"):
        line = PARSER.line([*given.typed, "--list"])
        raise CommandLineError("Command must include exactly one action: --list.", line)
    for one, *others in (
        ("consumer", "group-type", "protocol", "share", "streams"),
        ("share", "consumer", "group-type", "protocol", "streams"),
        ("streams", "consumer", "group-type", "protocol", "share"),
    ):
        PARSER.exclude(given, one, *others)
    wanted = given.text("group-type")
    if wanted is not None and wanted.lower() not in TYPES:
        raise ToolError("--group-type must be a valid group type.")
    rows = []
    with cluster(given) as one_cluster:
        for broker in sorted(metadata(one_cluster, []).brokers):
            answer = ask(one_cluster, broker, ListGroupsRequest())
            raise_for(answer.error_code)
            rows += [each for each in answer.groups if _chosen(given, each)]
    width = max([_WIDTH_MIN, *(len(each.group_id) for each in rows)])
    for group, kind, protocol in [
        ("GROUP", "TYPE", "PROTOCOL"),
        *((each.group_id, each.group_type.capitalize(), each.protocol_type) for each in rows),
    ]:
        print(f"{group:<{width}} {kind:<{width}} {protocol:<{width}}")
    return 0


def _chosen(given: Given, group: Any) -> bool:
    kind, protocol = group.group_type.lower(), group.protocol_type
    if given.flag("consumer"):
        return bool(kind == "consumer" or (kind == "classic" and protocol in ("", "consumer")))
    if given.flag("share") or given.flag("streams"):
        return bool(kind == ("share" if given.flag("share") else "streams"))
    wanted, of_protocol = given.text("group-type"), given.text("protocol")
    return (wanted is None or wanted.lower() == kind) and of_protocol in (None, protocol)
