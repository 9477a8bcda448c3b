"""Names that commands take, and what they print of changes: topics, groups and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.tools.shared.causes import why_no_group, why_no_topic, with_cause
from moldau.tools.shared.errors import CommandError, UsageError, explain_kafka_failure
from moldau.tools.shared.output import note

if TYPE_CHECKING:
    from moldau.client.admin.problem import KafkaProblem
    from moldau.tools.shared.connection import Connection

SOURCES = {
    0: "unknown",
    1: "topic",
    2: "broker",
    3: "broker default",
    4: "static",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
"""Where a setting's value comes from, by the number in DescribeConfigs."""


def report_each(
    connection: Connection, names: Iterable[str], refused: Mapping[str, KafkaProblem], done: str
) -> bool:
    """Print `done` (with {}) or the refusal of each name; return whether all succeeded."""
    for name in names:
        if name in refused:
            note(f"moldau: {name}: {refusal(connection, refused[name])}")
        else:
            print(done.format(name))
    return not refused


def refusal(connection: Connection, problem: KafkaProblem) -> str:
    """What a broker refuses, with what to do about it, or the cause if it only says that it was late."""
    return with_cause(explain_kafka_failure(problem) or str(problem), problem.name, connection)


def topic_names(connection: Connection, *, internal: bool) -> list[str]:
    """Return the names of all topics, sorted; internal ones (that begin with __) only on request."""
    from moldau.client.admin.routing import metadata

    known = (topic.name for topic in metadata(connection.cluster()).topics)
    return sorted(name for name in known if name and (internal or not name.startswith("__")))


def select_names(
    patterns: Iterable[str],
    names: list[str],
    *,
    what: str,
    regex: bool = True,
    connection: Connection | None = None,
) -> list[str]:
    """Return the names that equal one of `patterns` or match one as a regular expression. CommandError
    if none does; `connection` finds out whether only a right is missing.
    """
    chosen: list[str] = []
    for pattern in patterns:
        if pattern in names:
            found = [pattern]
        elif regex:
            try:
                matches = compile_pattern(pattern).fullmatch
            except PatternError as problem:
                raise UsageError(f"{pattern!r} is not a regular expression: {problem}") from None
            found = [name for name in names if matches(name) is not None]
        else:
            found = []
        if not found and what == "topic" and connection is not None:
            raise no_such_topic(connection, pattern)
        if not found:
            if connection is not None and (refusal := why_no_group(connection, pattern)):
                raise CommandError(refusal)
            raise CommandError(f"there is no {what} {pattern!r}: list them with `moldau {what}s list`")
        chosen += [name for name in found if name not in chosen]
    return chosen


def no_such_topic(connection: Connection, topic: str) -> CommandError:
    """The error for a topic that the user does not see: it does not exist, or a right is missing."""
    refusal = why_no_topic(connection, topic)
    return CommandError(refusal or f"there is no topic {topic!r}: list them with `moldau topics list`")


def require_names(names: Iterable[str] | None, option: str) -> None:
    """UsageError if one is empty: a script's variable that is not set names no setting, group or topic."""
    if any(not name.strip() for name in names or ()):
        raise UsageError(f"{option} is empty: nothing was changed")


def change_settings(
    connection: Connection, kind: int, names: Iterable[str], set_: Mapping[str, str], unset: Iterable[str]
) -> bool:
    """Set and unset settings of the resources `names`; print the results, return whether all succeeded.

    A broker takes the removal of a setting that does not exist, so that is looked up: CommandError.
    """
    from moldau.client.admin.configs import alter_configs, describe_configs

    resources, unset = list(names), list(unset)
    if unset:
        for name, entries in describe_configs(connection.cluster(), kind, resources, synonyms=False).items():
            _require_settings(name, [each.name for each in entries], unset)
    changes: dict[str, tuple[bool, str | None]] = {name: (True, value) for name, value in set_.items()}
    changes |= dict.fromkeys(unset, (False, None))
    failed = alter_configs(connection.cluster(), kind, dict.fromkeys(resources, changes))
    for name in resources:
        if name in failed:
            note(f"moldau: {name or 'default'}: {refusal(connection, failed[name])}")
        else:
            print(f"Updated the settings of {name or 'every broker (default)'}.")
    return not failed


def _require_settings(resource: str, known: Iterable[str], names: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known and not resource:
            note(f"moldau: no default of {name} was set: see `moldau configs describe broker default`")
        elif name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise CommandError(f"{resource} has no setting {name!r}: nothing was changed{hint}")
