"""Offsets of partitions: by time (ListOffsets), and committed ones (OffsetCommit and OffsetFetch).

ListOffsets goes to the leaders, one request a broker. A commit is that of a *simple consumer*: generation -1
and no member id, which a coordinator accepts for a group without members.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from moldau.client.connection import Connection
from moldau.client.errors import Retriable, check
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.common.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

TopicPartition: TypeAlias = tuple[str, int]

EARLIEST, LATEST = -2, -1
_BY_NAME = 9
"""From version 10 on, OffsetCommit and OffsetFetch name topics by id, which older brokers do not have."""


class CommittedOffset(NamedTuple):
    """A committed offset and its metadata text."""

    offset: int
    metadata: str


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """See `Cluster.offsets`. With `read_committed` the end is the last stable offset."""
    found: dict[TopicPartition, int] = {}

    def attempt() -> dict[TopicPartition, int]:
        leaders: dict[int, list[TopicPartition]] = defaultdict(list)
        for topic, partition in wanted:
            if (topic, partition) not in found:
                leaders[cluster.place(topic, partition).leader].append((topic, partition))
        problem: Retriable | None = None
        for asked in leaders.values():
            problem = _ask_leader(cluster, asked, wanted, read_committed, found) or problem
        if problem is not None:
            raise problem
        return found

    if not wanted:
        return {}
    return cluster.persist(f"look up offsets of {_names(wanted)}", attempt)


def _ask_leader(
    cluster: Cluster,
    asked: list[TopicPartition],
    wanted: Mapping[TopicPartition, int],
    read_committed: bool,
    found: dict[TopicPartition, int],
) -> Retriable | None:
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, partition in asked:
        each = ListOffsetsPartition(partition_index=partition, timestamp=wanted[topic, partition])
        topics[topic].append(each)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    try:
        answer = cluster.leader(*asked[0]).ask(request)
    except (OSError, Retriable):
        for topic in topics:
            cluster.forget_places(topic)
        raise
    problem: Retriable | None = None
    for topic_answer in answer.topics:
        name = topic_answer.name
        for each in topic_answer.partitions:
            index = each.partition_index
            try:
                cluster.check_partition(each.error_code, name, index, f"look up offsets of {name}-{index}")
            except Retriable as again:
                problem = again
            else:
                found[name, index] = each.offset
    return problem


def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    metadata: str = "",
    within_seconds: float | None = None,
) -> None:
    """See `Cluster.commit_offsets`. RequestRefused when the group has members."""
    if not offsets:
        return
    topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        topics[topic].append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    wanted = f"commit offsets of group {group_id!r}"

    def attempt() -> None:
        answer = _ask_coordinator(
            cluster, group_id, lambda connection: connection.ask(request, at_most=_BY_NAME)
        )
        _check_all(
            cluster,
            group_id,
            [
                each.error_code
                for topic in answer.topics
                for each in topic.partitions
                if each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ],
            wanted,
        )

    cluster.persist(wanted, attempt, within_seconds)


def committed_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, CommittedOffset]:
    """The group's committed offsets with their metadata; partitions without one are left out."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    if not topics:
        return {}
    wanted = f"read the offsets of group {group_id!r}"

    def ask(connection: Connection):  # type: ignore[no-untyped-def]
        if connection.version_of(OffsetFetchRequest, _BY_NAME) >= 8:
            group = OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[OffsetFetchRequestTopics(name=n, partition_indexes=p) for n, p in topics.items()],
            )
            request = OffsetFetchRequest(groups=[group], require_stable=True)
            return connection.ask(request, at_most=_BY_NAME).groups[0]
        old = [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in topics.items()]
        stable = connection.version_of(OffsetFetchRequest, _BY_NAME) >= 7
        return connection.ask(
            OffsetFetchRequest(group_id=group_id, topics=old, require_stable=stable), at_most=_BY_NAME
        )

    def attempt() -> dict[TopicPartition, CommittedOffset]:
        answer = _ask_coordinator(cluster, group_id, ask)
        found = [(topic.name, each) for topic in answer.topics for each in topic.partitions]
        _check_all(cluster, group_id, [answer.error_code, *(each.error_code for _, each in found)], wanted)
        return {
            (name, each.partition_index): CommittedOffset(each.committed_offset, each.metadata or "")
            for name, each in found
            if each.committed_offset >= 0
        }

    return cluster.persist(wanted, attempt)


def _ask_coordinator(cluster: Cluster, group_id: str, ask):  # type: ignore[no-untyped-def]
    try:
        return ask(cluster.coordinator(group_id))
    except OSError:
        cluster.forget_coordinator(group_id)
        raise


def _check_all(cluster: Cluster, group_id: str, error_codes: Iterable[int], wanted: str) -> None:
    try:
        for error_code in error_codes:
            check(error_code, wanted)
    except Retriable:
        cluster.forget_coordinator(group_id)
        raise


def _names(wanted: Mapping[TopicPartition, int]) -> str:
    names = [f"{topic}-{partition}" for topic, partition in wanted]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
