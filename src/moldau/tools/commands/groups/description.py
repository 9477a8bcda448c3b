"""Groups for `moldau groups`: asked through the admin client, returned as dataclasses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.common.core.sink_ledger import is_sink_ledger
from moldau.tools.shared.admin import no_such_topic, select_names, wait
from moldau.tools.shared.errors import CommandError, UsageError

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from moldau.tools.shared.connection import Connection

Place = tuple[str, int]
"""A topic and a partition of it."""

DESCRIBE_GROUPS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One line of `groups list`."""

    name: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group, with its partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group as its coordinator describes it."""

    name: str
    state: str
    kind: str
    assignor: str
    coordinator: str
    members: tuple[Member, ...]


def _words(enum: Any) -> str:
    """Write PREPARING_REBALANCING as Kafka's tools do: PreparingRebalancing."""
    return "".join(word.capitalize() for word in enum.name.split("_")) if enum is not None else ""


def list_groups(
    connection: Connection, states: Sequence[str] | None = None, kinds: Sequence[str] | None = None
) -> list[GroupListing]:
    """List groups by name: of all states and types unless some are given."""
    from confluent_kafka import KafkaException

    answer = wait(
        connection.admin().list_consumer_groups(request_timeout=connection.timeout_seconds), connection
    )
    if answer.errors:
        raise KafkaException(answer.errors[0])
    wanted_states = {part.strip().lower() for word in states or () for part in word.split(",")}
    wanted_kinds = {part.strip().lower() for word in kinds or () for part in word.split(",")}
    found = [GroupListing(each.group_id, _words(each.state), _words(each.type)) for each in answer.valid]
    return sorted(
        (
            each
            for each in found
            if (not wanted_states or each.state.lower() in wanted_states)
            and (not wanted_kinds or each.kind.lower() in wanted_kinds)
        ),
        key=lambda each: each.name,
    )


def describe_groups(connection: Connection, patterns: Sequence[str] | None) -> list[GroupDescription]:
    """Describe the groups that match `patterns` (None: all), by name."""
    names = [each.name for each in list_groups(connection)]
    if patterns:
        names = select_names(patterns, names, what="group", connection=connection)
    described = []
    for start in range(0, len(names), DESCRIBE_GROUPS_AT_ONCE):
        some = names[start : start + DESCRIBE_GROUPS_AT_ONCE]
        futures = connection.admin().describe_consumer_groups(
            some, request_timeout=connection.timeout_seconds
        )
        described += [_describe(wait(futures[name], connection)) for name in some]
    return described


def _describe(description: Any) -> GroupDescription:
    node = description.coordinator
    return GroupDescription(
        name=description.group_id,
        state=_words(description.state),
        kind=_words(getattr(description, "type", None)),
        assignor=description.partition_assignor or "",
        coordinator=f"{node.host}:{node.port} ({node.id})" if node is not None else "",
        members=tuple(
            Member(
                each.member_id,
                each.group_instance_id or None,
                each.client_id,
                each.host,
                tuple(
                    (at.topic, at.partition)
                    for at in (each.assignment.topic_partitions if each.assignment else ())
                ),
            )
            for each in sorted(description.members, key=lambda each: str(each.member_id))
        ),
    )


class Committed(NamedTuple):
    """A committed offset; with `ledger`, a Spark sink's micro-batch number instead of a position in the
    topic.
    """

    offset: int
    ledger: bool = False


def committed_offsets(connection: Connection, group: str) -> dict[Place, Committed]:
    """Return the committed offsets of a group; empty if it has none or does not exist."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    futures = connection.admin().list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=connection.timeout_seconds
    )
    answer = wait(futures[group], connection)
    return {
        (at.topic, at.partition): Committed(at.offset, is_sink_ledger(_metadata(at)))
        for at in answer.topic_partitions
        if at.offset >= 0
    }


def _metadata(at: TopicPartition) -> str | None:
    try:
        return at.metadata
    except UnicodeDecodeError as failure:
        # confluent-kafka 2.16 reads beyond the end of the text, into whatever lies there.
        return bytes(failure.object).decode(errors="replace")


def end_offsets(connection: Connection, places: Iterable[Place]) -> dict[Place, int]:
    """Return the log end offset of each partition; partitions that do not exist are left out."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(*place): latest for place in places}
    found: dict[Place, int] = {}
    if not asked:
        return found
    for at, future in (
        connection.admin().list_offsets(asked, request_timeout=connection.timeout_seconds).items()
    ):
        try:
            found[at.topic, at.partition] = wait(future, connection).offset
        except KafkaException:
            # The topic was deleted after the group committed: its lag is unknown, the rest is still worth
            # showing.
            continue
    return found


def offset_rows(connection: Connection, group: GroupDescription) -> list[dict[str, Any]]:
    """Return a row for each partition that the group committed or is assigned: offset, log end, lag,
    member.
    """
    committed = committed_offsets(connection, group.name)
    readers = {place: member for member in group.members for place in member.partitions}
    places = sorted(set(committed) | set(readers))
    ledger = {place for place, each in committed.items() if each.ledger}
    ends = end_offsets(connection, [place for place in places if place not in ledger])
    rows = []
    for place in places:
        current = committed[place].offset if place in committed else None
        end, reader = ends.get(place), readers.get(place)
        rows.append(
            {
                "group": group.name,
                "topic": place[0],
                "partition": place[1],
                "current_offset": current,
                "log_end_offset": end,
                "lag": max(end - current, 0) if current is not None and end is not None else None,
                "consumer_id": reader.member_id if reader else None,
                "host": reader.host if reader else None,
                "client_id": reader.client_id if reader else None,
                "note": f"ledger of an exactly-once sink: micro-batch {current}" if place in ledger else None,
            }
        )
    return rows


def expand_topics(connection: Connection, words: Sequence[str]) -> list[Place]:
    """Turn TOPIC and TOPIC:0,1 into partitions. CommandError for a topic or partition that does not exist."""
    known = connection.admin().list_topics(timeout=connection.timeout_seconds).topics
    places: list[Place] = []
    for word in words:
        topic, colon, indexes = word.partition(":")
        if topic not in known:
            raise no_such_topic(connection, topic)
        existing = sorted(known[topic].partitions)
        try:
            wanted = [int(index) for index in indexes.split(",")] if colon else existing
        except ValueError:
            raise UsageError(f"--topic {word!r} is not understood: write TOPIC or TOPIC:0,1,2") from None
        for index in wanted:
            if index not in existing:
                raise CommandError(f"{topic} has no partition {index}: it has {len(existing)}")
            places.append((topic, index))
    return places
