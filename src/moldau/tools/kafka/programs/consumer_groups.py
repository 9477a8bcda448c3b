"""kafka-consumer-groups: lists, describes and deletes consumer groups, resets and deletes their offsets.

A failure of the cluster is a line on standard output, and ends with 0, as in Kafka; wrong words end with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.client.admin.groups import (
    Group,
    Listed,
    delete_committed_offsets,
    delete_groups,
    find_group,
    list_groups,
)
from moldau.client.admin.problem import KafkaProblem
from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.kafka.lines.options import Given, Long, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries import reaching
from moldau.tools.kafka.queries.refusals import WORDS, told, words_of

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
RESETS = (
    "to-earliest",
    "to-latest",
    "to-current",
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "from-file",
)
_EXCEPTIONS = {
    int(ErrorCode.GROUP_ID_NOT_FOUND): "GroupIdNotFoundException",
    int(ErrorCode.NON_EMPTY_GROUP): "GroupNotEmptyException",
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): "UnknownTopicOrPartitionException",
    int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC): "GroupSubscribedToTopicException",
    int(ErrorCode.GROUP_AUTHORIZATION_FAILED): "GroupAuthorizationException",
}
_NO_EXECUTE = (
    "WARN: No action will be performed as the --execute option is missing. Add --dry-run to say that this is "
    "meant, or --execute to carry it out."
)

PARSER = Parser(
    "kafka-consumer-groups",
    "Lists, describes and deletes consumer groups, and resets or deletes their offsets.",
    (
        Option("bootstrap-server", "server to connect to", "A broker.", required=True),
        reaching.BROKER_LIST,
        reaching.ZOOKEEPER,
        reaching.COMMAND_CONFIG,
        flag("new-consumer", "No effect: there is only the new one."),
        flag("list", "List the groups."),
        flag("describe", "Show offsets and lag (or --members, --state)."),
        flag("delete", "Delete groups."),
        flag("reset-offsets", "Change the offsets of groups without members; a dry run unless --execute."),
        flag("delete-offsets", "Delete the offsets of topics."),
        Option("validate-regex", "regex", "Say whether a regular expression is one for subscriptions."),
        Option("group", "consumer group", "A group; may be repeated."),
        flag("all-groups", "All groups."),
        Option("topic", "topic", "A topic, or partitions of it: orders:0,1. May be repeated."),
        flag("all-topics", "With --reset-offsets: all topics with offsets of the group."),
        flag("offsets", "With --describe: offsets and lag (the default)."),
        flag("members", "With --describe: the members."),
        Option("state", "state", "With --describe: the state; with --list: only these.", may_lack_value=True),
        Option("type", "type", "With --list: the types, or only these.", may_lack_value=True),
        flag("verbose", "With --describe: more columns."),
        Option("timeout", "timeout (ms)", "No effect.", Long, default=30000),
        flag("dry-run", "Show the plan, change nothing."),
        flag("execute", "Carry the plan out."),
        flag("export", "Print the plan as CSV, for --from-file."),
        flag("to-earliest", "To the first record."),
        flag("to-latest", "To the end."),
        flag("to-current", "To the committed offset."),
        Option("to-offset", "offset", "To this offset.", Long),
        Option("shift-by", "number-of-offsets", "Forward, or back if negative.", Long),
        Option("to-datetime", "datetime", "To the first record since: YYYY-MM-DDThh:mm:ss.sss (UTC)."),
        Option("by-duration", "duration", "To so long ago: PnDTnHnMnS.", aliases=("by-period",)),
        Option("from-file", "path to CSV file", "To the offsets in a file."),
    ),
)

_ONLY_WITH = {
    "members": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "verbose": ("describe",),
}
"""Option -> the actions that it goes with."""
_PATTERN_ERRORS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
}
"""How a sentence of RE2's begins -> what Kafka's tool prints for it, by RE2/J."""


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    given = PARSER.parse(words)
    _check(given)
    if given.flag("validate-regex"):
        return _validate(given.text("validate-regex") or "")
    with reaching.cluster(given) as cluster:
        try:
            given.number("timeout")
            for action, act in _ACTS.items():
                if given.flag(action):
                    act(cluster, given)
        except CommandLineError as problem:
            if not str(problem).startswith("Cannot parse argument"):
                raise
            print(f"\nError: Executing consumer group command failed due to {problem}")
        except (ToolError, KafkaProblem) as problem:
            print(f"\nError: Executing consumer group command failed due to {told(problem)}")
    return 0


def _check(given: Given) -> None:
    """Raise CommandLineError for options that lack or exclude each other, in Kafka's order."""
    count = sum(given.flag(each) for each in ACTIONS)
    one_action = "Command must include exactly one action: " + ", ".join(f"--{each}" for each in ACTIONS)
    if not count:
        raise CommandLineError(one_action, f"All options: {PARSER.tool} --help")
    if not given.flag("validate-regex") and not any(map(given.flag, ("broker-list", "zookeeper"))):
        PARSER.require(given, "bootstrap-server")
    absent = [
        name
        for name, actions in _ONLY_WITH.items()
        if given.flag(name) and not any(given.flag(each) for each in actions)
    ]
    if absent:
        raise CommandLineError(
            f"Option(s) [{', '.join(absent)}] are unavailable given other options on the command line",
            f"--{absent[0]} goes with --{' or --'.join(_ONLY_WITH[absent[0]])}.",
        )
    if given.flag("describe"):
        _require_one(given, "describe", "all-groups", "group")
        if sum(given.flag(each) for each in ("members", "offsets", "state")) > 1:
            raise CommandLineError(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if given.text_or_none("state"):
            raise CommandLineError("Option [describe] does not take a value for [state]")
    elif given.flag("reset-offsets"):
        _check_reset(given)
    elif given.flag("delete"):
        _require_one(given, "delete", "all-groups", "group")
        if given.flag("topic"):
            raise CommandLineError(
                "The consumer does not support topic-specific offset deletion from a consumer group."
            )
    elif given.flag("delete-offsets") and not (given.flag("group") and given.flag("topic")):
        raise CommandLineError(
            "Option [delete-offsets] takes the following options: [topic], [group]",
            PARSER.line(
                [*given.typed, *(f"--{each}" for each in ("topic", "group") if not given.flag(each))]
            ),
        )
    PARSER.exclude(given, "group", "all-groups", "list")
    others = tuple(each for each in ACTIONS if each not in ("delete-offsets", "reset-offsets"))
    PARSER.exclude(given, "topic", *others)
    if count > 1:
        raise CommandLineError(one_action)


def _require_one(given: Given, action: str, *names: str) -> None:
    if not any(map(given.flag, names)):
        listed = ", ".join(f"[{each}]" for each in names)
        raise CommandLineError(
            f"Option [{action}] takes one of these options: {listed}",
            PARSER.line([*given.typed, "--all-groups"]),
        )


def _check_reset(given: Given) -> None:
    if given.flag("execute") and given.flag("dry-run"):
        raise CommandLineError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not given.flag("execute") and not given.flag("dry-run"):
        print(_NO_EXECUTE, file=sys.stderr)
    _require_one(given, "reset-offsets", "all-groups", "group")
    for index, name in enumerate(RESETS):
        PARSER.exclude(given, name, *RESETS[index + 1 :])


def _validate(text: str) -> int:
    """Say whether a pattern is one of RE2's, which groups of the new protocol subscribe by."""
    try:
        compile_pattern(text)
    except PatternError as problem:
        words = problem.reason
        for ours, javas in _PATTERN_ERRORS.items():
            if words.startswith(ours):
                words = javas
        print(f"The regular expression `{text}` is invalid: {words}.")
        return 0
    print(f"The regular expression `{text}` is valid.")
    return 0


def _list(cluster: Cluster, given: Given) -> None:
    groups = list_groups(cluster)
    columns = []
    for name, heading, known, label in (
        ("type", "TYPE", ("Consumer", "Classic"), "types list"),
        ("state", "STATE", STATES, "state list"),
    ):
        if not given.flag(name):
            continue
        columns.append(heading)
        wanted = _filter(given.text_or_none(name) or "", known, label)
        groups = [
            each for each in groups if not wanted or (_kind(each) if name == "type" else each.state) in wanted
        ]
    if not columns:
        for each in groups:
            print(each.group_id)
        return
    width = max([15, *(len(each.group_id) for each in groups)]) + 10
    print(" ".join([f"{'GROUP':<{width}}", *(f"{each:<20}" for each in columns)]))
    for each in groups:
        cells = {"TYPE": _kind(each), "STATE": each.state}
        print(" ".join([f"{each.group_id:<{width}}", *(f"{cells[heading]:<20}" for heading in columns)]))


def _filter(text: str, known: Sequence[str], label: str) -> set[str]:
    """Return the words of a list, spelled as in `known`. CommandLineError for another."""
    spelled = {each.lower(): each for each in known}
    words = [each.strip().lower() for each in text.split(",")] if text else []
    if any(each not in spelled for each in words):
        what = label.partition(" ")[0].rstrip("s")
        raise CommandLineError(f"Invalid {label} '{text}'. Valid {what}s are: {', '.join(known)}")
    return {spelled[each] for each in words}


def _named(cluster: Cluster, given: Given) -> list[str]:
    if given.flag("all-groups"):
        return [each.group_id for each in list_groups(cluster)]
    return list(dict.fromkeys(given.texts("group")))


def _kind(group: Listed) -> str:
    return (group.type or "classic").capitalize()


def _existing(cluster: Cluster, name: str) -> Group:
    found = find_group(cluster, name)
    if found is None:
        raise ToolError(f"org.apache.kafka.common.errors.GroupIdNotFoundException: Group {name} not found.")
    return found


def _describe(cluster: Cluster, given: Given) -> None:
    from moldau.tools.kafka.formats import group_descriptions

    groups = [_existing(cluster, name) for name in _named(cluster, given)]
    verbose = given.flag("verbose")
    if given.flag("members"):
        group_descriptions.print_members(groups, verbose=verbose)
    elif given.flag("state"):
        group_descriptions.print_states(groups, verbose=verbose)
    else:
        group_descriptions.print_offsets(cluster, groups, verbose=verbose)


def _reset(cluster: Cluster, given: Given) -> None:
    from moldau.tools.kafka.queries.group_resets import reset

    reset(cluster, given, _named(cluster, given))


def _error(code: int) -> str:
    words = words_of(code)
    name = _EXCEPTIONS.get(code)
    return f"org.apache.kafka.common.errors.{name}: {words}" if name else words


def _delete(cluster: Cluster, given: Given) -> None:
    outcome = delete_groups(cluster, _named(cluster, given))
    failed = {name: code for name, code in outcome.items() if code}
    well = ", ".join(f"'{name}'" for name in outcome if name not in failed)
    if not failed:
        print(f"Deletion of requested consumer groups ({well}) was successful.")
        return
    print("\nError: Deletion of some consumer groups failed:")
    for name, code in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {_error(code)}")
    if well:
        print(f"\nThese consumer groups were deleted successfully: {well}")


def _delete_offsets(cluster: Cluster, given: Given) -> None:
    from moldau.tools.kafka.queries.group_resets import explicit_partitions, named_partitions

    name = given.texts("group")[0]
    places: list[tuple[str, int]] = []
    status: dict[tuple[str, int | None], str] = {}
    for word in given.texts("topic"):
        try:
            places += sorted(explicit_partitions(word)) or named_partitions(cluster, [word])
        except CommandLineError:
            raise
        except ToolError:
            unknown = _error(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            status[word.partition(":")[0], None] = f"Error: {unknown}"
    code, answers = 0, dict.fromkeys(places, 0)
    try:
        answers |= delete_committed_offsets(cluster, name, places)
    except KafkaProblem as problem:
        code = problem.error_code
    status = {
        place: f"Error: {_error(code or each)}" if code or each else "Successful"
        for place, each in answers.items()
    } | status
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        print(f"\nError: {WORDS[code]}")
    elif code:
        print(f"\nError: Encountered some unknown error: {_error(code)}")
    elif any(answers.values()):
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {name}.")
    print(f"\n{'TOPIC':<15} {'PARTITION':<10} {'STATUS':<15}")
    for (topic, index), said in status.items():
        print(f"{topic:<15} {'-' if index is None else index:<10} {said:<15}")


_ACTS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
