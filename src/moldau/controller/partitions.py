"""Partitions of topics that exist: more of them, and changes of their in-sync sets.

`alter_partitions` is what a leader asks for when a follower fell behind or caught up (KIP-497). The leader
says which state it builds on; when another change was faster, it is refused and looks again.
"""

import random
from collections import Counter
from collections.abc import Generator, Sequence
from typing import NamedTuple

from moldau.controller.assignments import check_replicas, fresh_partitions
from moldau.controller.decision import (
    DONE,
    RECORDS_MAX,
    TOO_LARGE,
    Decision,
    Outcome,
    Refusal,
    Steps,
)
from moldau.controller.placement import place
from moldau.controller.topics import PARTITIONS_PER_TOPIC_MAX
from moldau.metadata.changes import Change, PartitionChanged, PartitionsAdded
from moldau.metadata.image import Image, PartitionState
from moldau.protocol.errors import ErrorCode


class MorePartitions(NamedTuple):
    """A topic that is to have `total_count` partitions; `assignments` are the replicas of the new ones, or
    None."""

    topic: str
    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


def create_partitions(
    image: Image, asked: Sequence[MorePartitions], source: random.Random
) -> Steps[list[tuple[str, Outcome]]]:
    """Decide on further partitions."""
    counts = Counter(more.topic for more in asked)
    changes: list[Change] = []
    results: dict[str, Outcome] = {}
    records = 0
    for more in asked:
        yield
        try:
            if counts[more.topic] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = yield from _add(image, more, source, RECORDS_MAX - records)
        except Refusal as refusal:
            results[more.topic] = refusal.outcome
        else:
            if added is None:
                return Decision([], [(topic, TOO_LARGE) for topic in counts])
            changes.append(added)
            records += len(added.partitions)
            results[more.topic] = DONE
    return Decision(changes, list(results.items()))


def _add(
    image: Image, more: MorePartitions, source: random.Random, count_max: int
) -> Generator[None, None, PartitionsAdded | None]:
    """The new partitions of one topic; None when there are more than `count_max`."""
    topic = image.topics.get(more.topic)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{more.topic}'.")
    present = len(topic.partitions)
    if more.total_count == present:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if more.total_count < present:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {more.topic} currently has {present} partition(s); "
            f"{more.total_count} would not be an increase.",
        )
    if more.total_count > PARTITIONS_PER_TOPIC_MAX:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS, f"A topic can have {PARTITIONS_PER_TOPIC_MAX} partitions at most."
        )
    additional = more.total_count - present
    if additional > count_max:
        return None
    replication_factor = len(topic.partitions[0].replicas)
    placed: Sequence[Sequence[int]]
    if more.assignments is None:
        placed = yield from place(
            list(image.brokers.values()),
            start=source.randrange(max(1, len(image.brokers))),
            first_partition=present,
            count=additional,
            replication_factor=replication_factor,
        )
    else:
        if len(more.assignments) != additional:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), but only {len(more.assignments)} "
                "assignment(s) were specified.",
            )
        for replicas in more.assignments:
            check_replicas(image, replicas, replication_factor)
            yield
        placed = more.assignments
    partitions = yield from fresh_partitions(image, placed)
    return PartitionsAdded(more.topic, partitions)


class AlterPartition(NamedTuple):
    """The in-sync set that a leader asks for, and the epochs it builds on."""

    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[int]


def alter_partitions(
    image: Image, node_id: int, broker_epoch: int, asked: Sequence[AlterPartition]
) -> Decision[list[tuple[AlterPartition, Outcome, PartitionState | None]]]:
    """Decide on in-sync sets that broker `node_id` asks for; the state is the new one, where there is one."""
    broker = image.brokers.get(node_id)
    stale = broker is None or broker.broker_epoch != broker_epoch
    changes: list[Change] = []
    results: list[tuple[AlterPartition, Outcome, PartitionState | None]] = []
    for alter in asked:
        try:
            if stale:
                raise Refusal(ErrorCode.STALE_BROKER_EPOCH, f"Broker {node_id} has been registered anew.")
            state = _with_isr(image, node_id, alter)
        except Refusal as refusal:
            results.append((alter, refusal.outcome, None))
        else:
            changes.append(PartitionChanged(alter.topic, alter.partition, state))
            results.append((alter, DONE, state))
    return Decision(changes, results)


def _with_isr(image: Image, node_id: int, alter: AlterPartition) -> PartitionState:
    topic = image.topics.get(alter.topic)
    if topic is None or not 0 <= alter.partition < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    state = topic.partitions[alter.partition]
    if alter.leader_epoch != state.leader_epoch or node_id != state.leader:
        newer = alter.leader_epoch > state.leader_epoch
        raise Refusal(ErrorCode.NOT_CONTROLLER if newer else ErrorCode.FENCED_LEADER_EPOCH)
    if alter.partition_epoch != state.partition_epoch:
        raise Refusal(ErrorCode.INVALID_UPDATE_VERSION)
    isr = tuple(alter.isr)
    if node_id not in isr or len(set(isr)) < len(isr) or not set(isr) <= set(state.replicas):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{list(isr)} is not an in-sync set of this partition.")
    for node in isr:
        if node not in image.brokers or image.brokers[node].fenced:
            raise Refusal(ErrorCode.INELIGIBLE_REPLICA, f"Broker {node} is not alive.")
    return state._replace(isr=isr, partition_epoch=state.partition_epoch + 1)
