"""Topics that a task needs: dead letters, offsets, and those that a source writes to (KIP-158).

topic.creation.groups=logs                     besides these there is always `default`, which comes last
topic.creation.default.replication.factor=3    required once any of these settings is given
topic.creation.default.partitions=1
topic.creation.logs.include=log-.*             regular expressions of whole names
topic.creation.logs.cleanup.policy=compact     any setting of a topic
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from moldau.common.core.java_patterns import compile_java
from moldau.common.core.patterns import Pattern, PatternError
from moldau.connect.errors import ConnectError, Retriable

PREFIX = "topic.creation."
_TIMEOUT_SECONDS = 30.0


def topic_exists(admin: AdminClient, name: str) -> bool:
    """Whether there is such a topic. Retriable. (A request for one name alone might create it.)"""
    try:
        return name in admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
    except KafkaException as error:
        raise Retriable(f"the cluster does not say which topics it has: {error.args[0].str()}") from error


def create_topic(
    admin: AdminClient,
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create it, or find it there. ConnectError, Retriable."""
    wanted = NewTopic(
        name, num_partitions=partitions, replication_factor=replication_factor, config=dict(config or {})
    )
    future = admin.create_topics([wanted], operation_timeout=_TIMEOUT_SECONDS)[name]
    try:
        future.result(_TIMEOUT_SECONDS * 2)
    except KafkaException as refused:
        error = refused.args[0]
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        kind = Retriable if error.retriable() else ConnectError
        raise kind(f"the topic {name} cannot be created: {error.str()}") from refused


def ensure_topic(
    admin: AdminClient, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]
) -> None:
    """Create it unless it is there. ConnectError, Retriable."""
    if not topic_exists(admin, name):
        create_topic(admin, name, partitions, replication_factor, config)


@dataclass(frozen=True)
class _Group:
    name: str
    include: tuple[Pattern, ...]
    exclude: tuple[Pattern, ...]
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    def has(self, topic: str) -> bool:
        return any(each.fullmatch(topic) for each in self.include) and not any(
            each.fullmatch(topic) for each in self.exclude
        )


class TopicCreation:
    """What the settings say about topics that are not there yet."""

    def __init__(self, groups: tuple[_Group, ...]) -> None:
        self._groups = groups
        self._known: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._groups)

    def ensure(self, admin: AdminClient, topic: str) -> None:
        """Create the topic, as the first group says that has its name. ConnectError, Retriable."""
        if topic in self._known:
            return
        if self._groups and not topic_exists(admin, topic):
            group = next(each for each in self._groups if each.has(topic))
            create_topic(admin, topic, group.partitions, group.replication_factor, group.config)
        self._known.add(topic)


def topic_creation(config: Mapping[str, str], enabled: bool) -> TopicCreation:
    """Of a connector. ConnectError: contradictions."""
    given = {name.removeprefix(PREFIX): value for name, value in config.items() if name.startswith(PREFIX)}
    if not given or not enabled:
        return TopicCreation(())
    names = [each.strip() for each in given.pop("groups", "").split(",") if each.strip()]
    if "default" in names:
        raise ConnectError("topic.creation.groups must not name default: it is always there, and comes last")
    default = _group("default", given, None)
    return TopicCreation((*(_group(each, given, default) for each in names), default))


def _group(name: str, given: Mapping[str, str], default: _Group | None) -> _Group:
    own = {
        each.removeprefix(f"{name}."): value for each, value in given.items() if each.startswith(f"{name}.")
    }
    include = own.pop("include", None if default is not None else ".*")
    if include is None:
        raise ConnectError(
            f'Missing required configuration "{PREFIX}{name}.include" which has no default value.'
        )
    exclude = own.pop("exclude", "")
    return _Group(
        name,
        _patterns(f"{PREFIX}{name}.include", include),
        _patterns(f"{PREFIX}{name}.exclude", exclude),
        _number(name, "partitions", own, default.partitions if default else None),
        _number(name, "replication.factor", own, default.replication_factor if default else None),
        own,
    )


def _number(group: str, name: str, own: dict[str, str], default: int | None) -> int:
    text = own.pop(name, None)
    if text is None and default is not None:
        return default
    full = f"{PREFIX}{group}.{name}"
    if text is None:
        raise ConnectError(f'Missing required configuration "{full}" which has no default value.')
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value != -1 and value < 1:
        raise ConnectError(f"Invalid value {text} for configuration {full}: must be a positive number, or -1")
    return value


def _patterns(name: str, text: str) -> tuple[Pattern, ...]:
    try:
        return tuple(compile_java(each.strip()) for each in text.split(",") if each.strip())
    except PatternError as wrong:
        raise ConnectError(f"Invalid value {text} for configuration {name}: {wrong}") from wrong
