"""The cluster at one moment. Immutable: readers keep the one that they have, the collector makes the next.

Parts that are not known yet are None: a page shows a place of the same size for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from moldau.client.admin.groups import Group
from moldau.client.admin.layout import Place
from moldau.client.admin.topics import Broker, Partition, partition_of

_DISTRIBUTING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class Ends(NamedTuple):
    """The first offset of a partition, and the one behind its last record."""

    start: int
    end: int


class TopicFacts(NamedTuple):
    """A topic; counts that are not known yet are None."""

    name: str
    is_internal: bool
    partitions: tuple[Partition, ...]
    problem: int = 0
    """The error code of the cluster for it, 0 for none."""
    records: int | None = None
    """Offsets between start and end: more than there are records where a topic is compacted."""
    end_total: int | None = None
    size_bytes: int | None = None
    """Of all replicas."""
    per_second: float | None = None
    under_replicated: int = 0
    """How many partitions lack a replica in sync."""
    offline: int = 0
    """How many partitions have no leader."""

    @property
    def replication_factor(self) -> int:
        """The replicas of its first partition, as Kafka's tools say it."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class GroupFacts(NamedTuple):
    """A group of consumers; what is not known yet is None."""

    group_id: str
    state: str
    type: str
    protocol_type: str
    coordinator_id: int
    members: int | None = None
    topics: tuple[str, ...] | None = None
    lag: int | None = None
    described: Group | None = None


@dataclass(frozen=True)
class Snapshot:
    """The cluster; `topics` and `groups` by name, in order of the names."""

    taken_at_ms: int
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicFacts]
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    groups_known: bool = False
    ends: Mapping[Place, Ends] = field(default_factory=dict)

    @cached_property
    def partition_count(self) -> int:
        """Of all topics."""
        return sum(len(each.partitions) for each in self.topics.values())

    @cached_property
    def under_replicated(self) -> tuple[Place, ...]:
        """Partitions that lack a replica in sync, those without a leader too."""
        return tuple(
            (topic.name, each.partition_id)
            for topic in self.topics.values()
            if topic.under_replicated
            for each in topic.partitions
            if len(each.in_sync) < len(each.replicas)
        )

    @cached_property
    def offline(self) -> tuple[Place, ...]:
        """Partitions without a leader."""
        return tuple(
            (topic.name, each.partition_id)
            for topic in self.topics.values()
            if topic.offline
            for each in topic.partitions
            if each.leader < 0
        )

    @cached_property
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """The groups that have offsets or members in each topic."""
        found: dict[str, list[str]] = {}
        for group in self.groups.values():
            for topic in group.topics or ():
                found.setdefault(topic, []).append(group.group_id)
        return {topic: tuple(names) for topic, names in found.items()}

    @cached_property
    def per_second(self) -> float | None:
        """Records a second into all topics; None before two counts."""
        rates = [each.per_second for each in self.topics.values() if each.per_second is not None]
        return sum(rates) if rates else None

    @cached_property
    def size_bytes(self) -> int | None:
        """Of all replicas of all topics."""
        sizes = [each.size_bytes for each in self.topics.values() if each.size_bytes is not None]
        return sum(sizes) if sizes else None

    def prepared(self) -> Snapshot:
        """Itself, with what takes a pass over all partitions worked out: for a thread."""
        _ = self.partition_count, self.under_replicated, self.offline, self.readers
        _ = self.per_second, self.size_bytes, self.broker_shares
        return self

    def led(self) -> list[Place]:
        """All partitions that have a leader."""
        return [
            (topic.name, each.partition_id)
            for topic in self.topics.values()
            for each in topic.partitions
            if each.leader >= 0
        ]

    @cached_property
    def broker_shares(self) -> dict[int, tuple[int, int, int]]:
        """By broker, also those that are gone: leaders, replicas, replicas that are not in sync."""
        counts: dict[int, list[int]] = {broker: [0, 0, 0] for broker in self.brokers}
        for topic in self.topics.values():
            for part in topic.partitions:
                if part.leader >= 0:
                    counts.setdefault(part.leader, [0, 0, 0])[0] += 1
                for replica in part.replicas:
                    row = counts.setdefault(replica, [0, 0, 0])
                    row[1] += 1
                    row[2] += replica not in part.in_sync
        return {broker: (a, b, c) for broker, (a, b, c) in sorted(counts.items())}


def first_snapshot(answer: Any, taken_at_ms: int, before: Snapshot | None) -> Snapshot:
    """A snapshot of a Metadata response; what it does not tell is taken over from the one before."""
    known: Mapping[str, TopicFacts] = before.topics if before is not None else {}
    topics: dict[str, TopicFacts] = {}
    for each in sorted(answer.topics, key=lambda topic: topic.name or ""):
        if each.name is None:
            continue
        parts = tuple(sorted(partition_of(part) for part in each.partitions))
        old = known.get(each.name)
        made = TopicFacts(
            each.name,
            each.is_internal,
            parts,
            each.error_code,
            under_replicated=sum(len(part.in_sync) < len(part.replicas) for part in parts),
            offline=sum(part.leader < 0 for part in parts),
        )
        if old is not None:
            made = made._replace(
                records=old.records,
                end_total=old.end_total,
                size_bytes=old.size_bytes,
                per_second=old.per_second,
            )
        topics[each.name] = made
    brokers = sorted(Broker(each.node_id, each.host, each.port, each.rack) for each in answer.brokers)
    return Snapshot(
        taken_at_ms,
        answer.cluster_id or "",
        answer.controller_id,
        {each.broker_id: each for each in brokers},
        topics,
        before.groups if before is not None else {},
        before is not None and before.groups_known,
        before.ends if before is not None else {},
    ).prepared()


def with_ends(snapshot: Snapshot, ends: Mapping[Place, Ends], rates: Mapping[str, float]) -> Snapshot:
    """The snapshot with offsets of all partitions, and records a second by topic."""
    sums: dict[str, list[int]] = {}
    for (topic, _), each in ends.items():
        row = sums.setdefault(topic, [0, 0])
        row[0] += each.end - each.start
        row[1] += each.end
    topics = {
        name: topic._replace(records=sums[name][0], end_total=sums[name][1], per_second=rates.get(name))
        if name in sums
        else topic
        for name, topic in snapshot.topics.items()
    }
    return replace(snapshot, topics=topics, ends=dict(ends)).prepared()


def with_sizes(snapshot: Snapshot, sizes: Mapping[str, int]) -> Snapshot:
    """The snapshot with the bytes of each topic; one that no directory has is empty."""
    topics = {name: topic._replace(size_bytes=sizes.get(name, 0)) for name, topic in snapshot.topics.items()}
    return replace(snapshot, topics=topics).prepared()


def with_groups(snapshot: Snapshot, groups: Iterable[GroupFacts]) -> Snapshot:
    """The snapshot with these groups and no others."""
    found = {each.group_id: each for each in sorted(groups, key=lambda group: group.group_id)}
    return replace(snapshot, groups=found, groups_known=True).prepared()


def group_with_offsets(
    group: GroupFacts,
    described: Group | None,
    committed: Mapping[Place, int],
    ends: Mapping[Place, Ends],
) -> GroupFacts:
    """The group with its members, topics and lag, as far as its partitions are known.

    A partition that was never committed counts from its start only where a member has it. What a group is
    behind that still distributes its first partitions is not known: 0 would look like a lag that grows.
    """
    members = described.members if described is not None else ()
    state = described.state if described is not None else group.state
    assigned = [place for member in members for place in member.assignment]
    topics = sorted({topic for topic, _ in (*committed, *assigned)})
    behind = [max(0, ends[place].end - offset) for place, offset in committed.items() if place in ends]
    behind += [
        ends[each].end - ends[each].start for each in assigned if each in ends and each not in committed
    ]
    known = bool(behind) or not (committed or assigned or state in _DISTRIBUTING)
    return group._replace(
        state=state,
        members=len(members),
        topics=tuple(topics),
        lag=sum(behind) if known else None,
        described=described,
    )


def places_of(groups: Sequence[GroupFacts]) -> list[Place]:
    """The partitions that the members of groups have."""
    return [
        place
        for group in groups
        if group.described is not None
        for member in group.described.members
        for place in member.assignment
    ]
