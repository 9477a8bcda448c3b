"""CreatePartitions and AlterPartition: adds partitions to topics, changes in-sync sets.

`alter_partitions` decides on the in-sync set that a leader asks for when a follower fell behind or caught up
(KIP-497, replication/role.py). It is a compare-and-set on the leader and partition epochs; an accepted one
becomes a PartitionsChanged entry in the metadata store. One that completes a reassignment brings the final
replicas with it, and another leader if this one is not among them.
"""

import random
from collections import Counter
from collections.abc import Generator, Sequence
from typing import NamedTuple

from moldau.broker.controller.assignments import check_replicas, fresh_partitions
from moldau.broker.controller.decision import (
    DONE,
    RECORDS_MAX,
    TOO_LARGE,
    Decision,
    MutationLimit,
    Outcome,
    Refusal,
    Steps,
    check_mutation,
)
from moldau.broker.controller.in_sync import with_in_sync
from moldau.broker.controller.membership import RulesOf, default_rules
from moldau.broker.controller.mirror_guard import refuse_mirror
from moldau.broker.controller.placement import place
from moldau.broker.controller.reassignment_rules import completed
from moldau.broker.controller.topics import PARTITIONS_PER_TOPIC_MAX
from moldau.broker.metadata.changes import Change, PartitionsAdded, PartitionsChanged
from moldau.broker.metadata.image import Image, PartitionState
from moldau.common.protocol.errors import ErrorCode


class MorePartitions(NamedTuple):
    """A topic that is to have `total_count` partitions; `assignments` are the replicas of the new ones, or
    None."""

    topic: str
    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


def create_partitions(
    image: Image,
    asked: Sequence[MorePartitions],
    source: random.Random,
    limit: MutationLimit | None = None,
    *,
    for_mirrors: bool = False,
) -> Steps[list[tuple[str, Outcome]]]:
    """Decide on further partitions. `limit`: the client's quota. `for_mirrors`: their sources have more."""
    counts = Counter(more.topic for more in asked)
    changes: list[Change] = []
    results: dict[str, Outcome] = {}
    records = 0
    for more in asked:
        yield
        try:
            if counts[more.topic] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if not for_mirrors:
                refuse_mirror(image, more.topic, "get further partitions")
            added = yield from _add(image, more, source, RECORDS_MAX - records)
            if added is not None:
                check_mutation(limit, more.topic, len(added.partitions))
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
    first = topic.partitions[0]
    replication_factor = len(first.target or first.replicas)
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
    """The in-sync set that a leader asks for, and the epochs it is based on. `broker_epochs`: the broker
    epoch under which the leader saw each member in sync, -1: not given (KIP-903); empty: given for none.
    """

    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[int]
    broker_epochs: Sequence[int] = ()


def alter_partitions(
    image: Image,
    node_id: int,
    broker_epoch: int,
    asked: Sequence[AlterPartition],
    rules: RulesOf = default_rules,
) -> Steps[list[tuple[AlterPartition, Outcome, PartitionState | None]]]:
    """Decide on in-sync sets that broker `node_id` asks for; the state is the new one, where there is one.

    Each is a compare-and-set on the epochs that the leader names, refused with

        UNKNOWN_TOPIC_OR_PARTITION   there is no such partition
        NOT_CONTROLLER               the leader has newer metadata than this broker: retry
        FENCED_LEADER_EPOCH          another leader was elected
        INVALID_UPDATE_VERSION       another change was faster; it comes with the metadata
        INELIGIBLE_REPLICA           a new member is fenced, or was registered anew since the leader saw it
        INVALID_REQUEST              not a legal in-sync set

    and all of them with STALE_BROKER_EPOCH when the broker has been registered anew.
    """
    broker = image.brokers.get(node_id)
    stale = broker is None or broker.broker_epoch != broker_epoch
    rows: dict[str, dict[int, PartitionState]] = {}
    results: list[tuple[AlterPartition, Outcome, PartitionState | None]] = []
    for alter in asked:
        yield
        try:
            if stale:
                raise Refusal(ErrorCode.STALE_BROKER_EPOCH, f"Broker {node_id} has been registered anew.")
            states = rows.setdefault(alter.topic, {})
            state = _with_isr(image, node_id, alter, rules, states.get(alter.partition))
        except Refusal as refusal:
            results.append((alter, refusal.outcome, None))
        else:
            states[alter.partition] = state
            results.append((alter, DONE, state))
    changes = [PartitionsChanged(topic, tuple(states.items())) for topic, states in rows.items() if states]
    return Decision(changes, results)


def _with_isr(
    image: Image, node_id: int, alter: AlterPartition, rules: RulesOf, decided: PartitionState | None
) -> PartitionState:
    """The partition's new state. `decided`: what the same request has made of it already."""
    topic = image.topics.get(alter.topic)
    if topic is None or not 0 <= alter.partition < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    state = decided or topic.partitions[alter.partition]
    if alter.leader_epoch > state.leader_epoch or alter.partition_epoch > state.partition_epoch:
        raise Refusal(ErrorCode.NOT_CONTROLLER, "This broker does not know these epochs yet.")
    if alter.leader_epoch < state.leader_epoch:
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH)
    if node_id != state.leader:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Broker {node_id} does not lead this partition.")
    if alter.partition_epoch < state.partition_epoch:
        raise Refusal(ErrorCode.INVALID_UPDATE_VERSION)
    isr = tuple(alter.isr)
    if node_id not in isr or len(set(isr)) < len(isr) or not set(isr) <= set(state.replicas):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{list(isr)} is not an in-sync set of this partition.")
    if len(alter.broker_epochs) not in (0, len(isr)):
        raise Refusal(ErrorCode.INVALID_REQUEST, "There must be a broker epoch for each member, or none.")
    for position, node in enumerate(isr):
        broker = image.brokers.get(node)
        if broker is None or broker.fenced:
            raise Refusal(ErrorCode.INELIGIBLE_REPLICA, f"Broker {node} is not alive.")
        if node not in state.isr and (
            broker.shutting_down or broker.has_offline(topic.topic_id, alter.partition)
        ):
            raise Refusal(
                ErrorCode.INELIGIBLE_REPLICA, f"Broker {node} is shutting down, or its replica is offline."
            )
        if alter.broker_epochs and alter.broker_epochs[position] not in (-1, broker.broker_epoch):
            raise Refusal(ErrorCode.INELIGIBLE_REPLICA, f"Broker {node} has been registered anew.")
    topic_rules = rules(alter.topic)
    changed = with_in_sync(state, isr, topic_rules.min_isr)
    if changed.target:
        live = frozenset(broker.node_id for broker in image.active_brokers())
        changed = completed(changed, live, topic_rules)
    return changed._replace(partition_epoch=state.partition_epoch + 1)
