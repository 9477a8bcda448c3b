"""Thin functions over confluent-kafka's AdminClient, shared by the commands.

Each waits for the response and raises KafkaException as librdkafka does; tools/app.py turns that into a
sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.tools.shared.causes import why_no_group, why_no_topic, why_stalled, with_cause
from moldau.tools.shared.errors import CommandError, UsageError, error_name, explain_kafka_failure
from moldau.tools.shared.output import note

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from moldau.tools.shared.connection import Connection

Key = TypeVar("Key")

ANSWER_SECONDS = 2.0
"""How much longer than a broker may work on a change its answer is waited for: it says why it is late."""

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


def wait(future: Future[Any], connection: Connection) -> Any:
    """Wait for one result.

    librdkafka has its own timeout; this one is slightly longer.
    """
    try:
        return future.result(timeout=connection.timeout_seconds + 5)
    except TimeoutError:
        cause = why_stalled(connection) or "see `moldau status`, or raise --timeout"
        raise CommandError(
            f"the cluster did not answer within {connection.timeout_seconds:.0f} s: {cause}"
        ) from None


def wait_for_each(futures: dict[Key, Future[Any]], connection: Connection, done: str) -> bool:
    """Wait for several results.

    Print `done` (with {}) or the error for each; return whether all succeeded.
    """
    well = True
    for key, future in futures.items():
        try:
            wait(future, connection)
        except Exception as failure:
            sentence = explain_kafka_failure(failure)
            if sentence is None:
                raise
            sentence = with_cause(sentence, error_name(failure), connection)
            note(f"moldau: {key}: {sentence}")
            well = False
        else:
            print(done.format(key))
    return well


def topic_names(admin: AdminClient, connection: Connection, *, internal: bool) -> list[str]:
    """Return the names of all topics, sorted; internal ones (that begin with __) only on request."""
    known = admin.list_topics(timeout=connection.timeout_seconds).topics
    return sorted(name for name in known if internal or not name.startswith("__"))


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


def describe_configs(
    admin: AdminClient, connection: Connection, kind: Any, names: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Return every setting of the resources `names` of one kind: name of the resource -> name of the
    setting -> entry.
    """
    from confluent_kafka.admin import ConfigResource

    resources = [ConfigResource(kind, name) for name in names]
    if not resources:
        return {}
    futures = admin.describe_configs(resources, request_timeout=connection.timeout_seconds)
    return {resource.name: wait(future, connection) for resource, future in futures.items()}


def require_names(names: Iterable[str] | None, option: str) -> None:
    """UsageError if one is empty: a script's variable that is not set names no setting, group or topic."""
    if any(not name.strip() for name in names or ()):
        raise UsageError(f"{option} is empty: nothing was changed")


def alter_configs(
    connection: Connection, kind: Any, names: Iterable[str], set_: dict[str, str], unset: Iterable[str]
) -> bool:
    """Set and unset settings of the resources `names`; print the results, return whether all succeeded.

    A broker takes the removal of a setting that does not exist, so that is looked up: CommandError.
    """
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    names, unset = list(names), list(unset)
    operations = [
        *(
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in set_.items()
        ),
        *(ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in unset),
    ]
    admin = connection.admin()
    if unset:
        for name, entries in describe_configs(admin, connection, kind, names).items():
            _require_settings(name, entries, unset)
    # One request a resource: librdkafka sends a broker's settings to that broker and everything else to the
    # controller.
    well = True
    for name in names:
        resource = ConfigResource(kind, name, incremental_configs=operations)
        futures = admin.incremental_alter_configs([resource], request_timeout=connection.timeout_seconds)
        well &= wait_for_each({name: next(iter(futures.values()))}, connection, "Updated the settings of {}.")
    return well


def _require_settings(resource: str, known: Iterable[str], names: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise CommandError(f"{resource} has no setting {name!r}: nothing was changed{hint}")
