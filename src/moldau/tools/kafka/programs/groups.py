"""kafka-groups --list: groups of every kind, with type and protocol."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.client.admin.groups import CONSUMER, Listed, list_all_groups
from moldau.client.admin.problem import KafkaProblem
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries.reaching import COMMAND_CONFIG, cluster
from moldau.tools.kafka.queries.refusals import raise_for

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
    with cluster(given) as one_cluster:
        try:
            rows = [each for each in list_all_groups(one_cluster) if _chosen(given, each)]
        except KafkaProblem as problem:
            raise_for(problem.error_code)
            raise
    width = max([_WIDTH_MIN, *(len(each.group_id) for each in rows)])
    for group, kind, protocol in [
        ("GROUP", "TYPE", "PROTOCOL"),
        *((each.group_id, each.type.capitalize(), each.protocol_type) for each in rows),
    ]:
        print(f"{group:<{width}} {kind:<{width}} {protocol:<{width}}")
    return 0


def _chosen(given: Given, group: Listed) -> bool:
    kind, protocol = group.type.lower(), group.protocol_type
    if given.flag("consumer"):
        return kind == CONSUMER or (kind == "classic" and protocol in ("", CONSUMER))
    if given.flag("share") or given.flag("streams"):
        return kind == ("share" if given.flag("share") else "streams")
    wanted, of_protocol = given.text("group-type"), given.text("protocol")
    return (wanted is None or wanted.lower() == kind) and of_protocol in (None, protocol)
