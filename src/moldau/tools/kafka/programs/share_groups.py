"""kafka-share-groups: lists, describes and deletes share groups (KIP-932), resets and deletes their start
offsets.

A failure of the cluster is a line on standard output, and ends with 0, as in Kafka; wrong words end with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.client.admin.groups import Group, Place, delete_groups, end_offsets, list_all_groups
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.share_groups import (
    SHARE,
    alter_share_offsets,
    delete_share_offsets,
    find_share_group,
    share_offsets,
)
from moldau.client.admin.topics import leaders
from moldau.client.offsets import EARLIEST
from moldau.tools.kafka.java.java_times import moment_ms
from moldau.tools.kafka.lines.options import Given, Long, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries import reaching
from moldau.tools.kafka.queries.group_resets import print_plan
from moldau.tools.kafka.queries.refusals import told, words_of

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
RESETS = ("to-earliest", "to-latest", "to-datetime")

PARSER = Parser(
    "kafka-share-groups",
    "Lists, describes and deletes share groups, and resets or deletes their start offsets.",
    (
        Option("bootstrap-server", "server to connect to", "A broker.", required=True),
        reaching.COMMAND_CONFIG,
        flag("list", "List the groups."),
        flag("describe", "Show start offsets and lag (or --members, --state)."),
        flag("delete", "Delete groups."),
        flag("reset-offsets", "Move the start of groups without members; a dry run unless --execute."),
        flag("delete-offsets", "Forget topics."),
        Option("group", "share group", "A group; may be repeated."),
        flag("all-groups", "All share groups."),
        Option("topic", "topic", "A topic; may be repeated."),
        flag("all-topics", "With --reset-offsets: all topics of the group."),
        flag("offsets", "With --describe: start offsets and lag (the default)."),
        flag("members", "With --describe: the members."),
        Option("state", "state", "With --describe: the state; with --list: only these.", may_lack_value=True),
        flag("verbose", "With --describe: more columns."),
        Option("timeout", "timeout (ms)", "No effect.", Long, default=30000),
        flag("dry-run", "Show the plan, change nothing."),
        flag("execute", "Carry the plan out."),
        flag("to-earliest", "To the first record."),
        flag("to-latest", "To the end."),
        Option("to-datetime", "datetime", "To the first record since: YYYY-MM-DDThh:mm:ss.sss (UTC)."),
    ),
)


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    given = PARSER.parse(words)
    _check(given)
    with reaching.cluster(given) as cluster:
        try:
            for action, act in _ACTS.items():
                if given.flag(action):
                    act(cluster, given)
        except (ToolError, KafkaProblem) as problem:
            print(f"\nError: Executing share group command failed due to {told(problem)}")
    return 0


def _check(given: Given) -> None:
    if sum(given.flag(each) for each in ACTIONS) != 1:
        listed = ", ".join(f"--{each}" for each in ACTIONS)
        raise CommandLineError(f"Command must include exactly one action: {listed}.")
    PARSER.require(given, "bootstrap-server")
    if given.flag("list"):
        return
    if not given.flag("group") and not given.flag("all-groups"):
        action = next(each for each in ACTIONS if given.flag(each))
        raise CommandLineError(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if given.flag("reset-offsets"):
        if given.flag("execute") and given.flag("dry-run"):
            raise CommandLineError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
        if sum(given.flag(each) for each in RESETS) != 1:
            listed = ", ".join(f"[{each}]" for each in RESETS)
            raise CommandLineError(f"Option [reset-offsets] takes exactly one of these options: {listed}")
    if given.flag("delete-offsets") and not given.flag("topic"):
        raise CommandLineError("Option [delete-offsets] takes the following options: [topic], [group]")


def _named(cluster: Cluster, given: Given) -> list[str]:
    if given.flag("all-groups"):
        return sorted(each.group_id for each in list_all_groups(cluster) if each.type.lower() == SHARE)
    return list(dict.fromkeys(given.texts("group")))


def _existing(cluster: Cluster, name: str) -> Group:
    found = find_share_group(cluster, name)
    if found is None:
        raise ToolError(f"org.apache.kafka.common.errors.GroupIdNotFoundException: Group {name} not found.")
    return found


def _list(cluster: Cluster, given: Given) -> None:
    groups = sorted(each for each in list_all_groups(cluster) if each.type.lower() == SHARE)
    if not given.flag("state"):
        for each in groups:
            print(each.group_id)
        return
    wanted = {word.strip().lower() for word in (given.text_or_none("state") or "").split(",")} - {""}
    groups = [each for each in groups if not wanted or each.state.lower() in wanted]
    width = max([15, *(len(each.group_id) for each in groups)])
    for name, state in [("GROUP", "STATE"), *((each.group_id, each.state) for each in groups)]:
        print(f"{name:<{width}} {state}")


def _describe(cluster: Cluster, given: Given) -> None:
    for name in _named(cluster, given):
        group = _existing(cluster, name)
        if given.flag("members"):
            _members(group, verbose=given.flag("verbose"))
        elif given.flag("state"):
            _state(group)
        else:
            _offsets(cluster, group, verbose=given.flag("verbose"))


def _print(heading: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    print()
    for row in (heading, *rows):
        cells = [
            f"{cell:<{max(width, *(len(each[place]) for each in (heading, *rows)))}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print(" ".join(cells).rstrip())


def _offsets(cluster: Cluster, group: Group, *, verbose: bool) -> None:
    heading = ["GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if verbose else []), "START-OFFSET", "LAG"]
    rows = []
    for each in share_offsets(cluster, group.group_id):
        epoch = [_shown(each.leader_epoch)] if verbose else []
        rows.append(
            [
                group.group_id,
                each.topic,
                str(each.partition),
                *epoch,
                _shown(each.start_offset),
                _shown(each.lag),
            ]
        )
    _print(heading, rows, [15, 15, 10, *([13] if verbose else []), 13, 0])


def _members(group: Group, *, verbose: bool) -> None:
    if not group.members:
        print(f"\nShare group '{group.group_id}' has no active members.", file=sys.stderr)
        return
    heading = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    heading += ["MEMBER-EPOCH", "ASSIGNMENT"] if verbose else ["ASSIGNMENT"]
    rows = []
    for each in group.members:
        epoch = [_shown(each.epoch)] if verbose else []
        count = str(len(each.assignment))
        rows.append(
            [
                group.group_id,
                each.member_id,
                each.host,
                each.client_id,
                count,
                *epoch,
                _places(each.assignment),
            ]
        )
    _print(heading, rows, [15, 15, 15, 15, 12, *([13] if verbose else []), 0])


def _places(places: Sequence[Place]) -> str:
    topics: dict[str, list[str]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(str(index))
    return ";".join(f"{topic}:{','.join(found)}" for topic, found in topics.items()) or "-"


def _state(group: Group) -> None:
    broker = group.coordinator
    where = f"{broker.host}:{broker.port}  ({broker.broker_id})"
    heading = ["GROUP", "COORDINATOR (ID)", "STATE", "#MEMBERS"]
    _print(heading, [[group.group_id, where, group.state, str(len(group.members))]], [15, 25, 15, 0])


def _shown(number: int | None) -> str:
    return "-" if number is None else str(number)


def _delete(cluster: Cluster, given: Given) -> None:
    outcome = dict(delete_groups(cluster, _named(cluster, given)).items())
    failed = {name: code for name, code in outcome.items() if code}
    well = ", ".join(f"'{name}'" for name in outcome if name not in failed)
    if not failed:
        print(f"Deletion of requested share groups ({well}) was successful.")
        return
    print("\nError: Deletion of some share groups failed:")
    for name, code in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {words_of(code)}")
    if well:
        print(f"\nThese share groups were deleted successfully: {well}")


def _reset(cluster: Cluster, given: Given) -> None:
    if not given.flag("execute") and not given.flag("dry-run"):
        print("WARN: No action will be performed as the --execute option is missing.", file=sys.stderr)
    rows: list[dict[str, object]] = []
    groups = _named(cluster, given)
    for name in groups:
        group = _existing(cluster, name)
        if group.members:
            print(
                f"\nError: Share group '{name}' is not empty: its start can only be reset without members, "
                f"and its state is {group.state}."
            )
            continue
        plan = reset_plan(cluster, given, name)
        if given.flag("execute") and plan:
            failed = {place: code for place, code in alter_share_offsets(cluster, name, plan).items() if code}
            for (topic, index), code in failed.items():
                print(f"\nError: {topic}-{index}: {words_of(code)}")
                del plan[topic, index]
        rows += [
            {"group": name, "topic": topic, "partition": index, "new_offset": offset}
            for (topic, index), offset in plan.items()
        ]
    print_plan(rows, groups)


def reset_plan(cluster: Cluster, given: Given, group_id: str) -> dict[Place, int]:
    """Where the group would begin: in the topics that are named, or in all that it reads."""
    topics = list(dict.fromkeys(given.texts("topic")))
    if not topics:
        topics = list(dict.fromkeys(each.topic for each in share_offsets(cluster, group_id)))
    places = sorted(leaders(cluster, topics))
    if given.flag("to-latest"):
        return end_offsets(cluster, places)
    ends = end_offsets(cluster, places)
    asked = EARLIEST if given.flag("to-earliest") else moment_ms(given.text("to-datetime") or "")
    found = cluster.offsets(dict.fromkeys(places, asked))
    return {place: found[place] if found.get(place, -1) >= 0 else ends[place] for place in places}


def _delete_offsets(cluster: Cluster, given: Given) -> None:
    for name in _named(cluster, given):
        outcome = delete_share_offsets(cluster, name, list(dict.fromkeys(given.texts("topic"))))
        width = max([15, *map(len, outcome)])
        print(f"\n{'TOPIC':<{width}} STATUS")
        for topic, code in outcome.items():
            print(f"{topic:<{width}} {f'Error: {words_of(code)}' if code else 'Successful'}")


_ACTS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
