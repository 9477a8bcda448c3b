"""What a broker itself believes of its partitions, and what it does by that: more of the invariants of
sim_cluster_invariants.py, beside what the logs on the disks say.

    asks             a follower is asked into the in-sync set once its log reaches the start of the leader's
                     epoch; while a change's outcome is unknown, the same change is asked for (KIP-497)
    enters           it enters as the registration under which its leader saw it caught up (KIP-903)
    moved            a reassignment is complete when all of its target is in sync (KIP-455)
    stable           the last stable offset is not above the high watermark, nor above the first offset of a
                     transaction whose marker is not below that (KIP-98)
    loaded           a coordinator serves once all that its log held at its election is committed
    whole            a transaction is complete once no partition of it has it open below the high watermark
    remembered       in the end each in-sync replica knows of every producer what is last in its log

They see a broken rule at the moment of the mistake, where what follows from it would need further accidents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sim_machine import Machine

from moldau.broker.coordinator.transaction.metadata import Transaction
from moldau.broker.coordinator.transaction.states import TransactionState
from moldau.broker.metadata.image import (
    GROUP_OFFSETS_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
    Image,
    PartitionState,
)
from moldau.broker.node import NotStarted
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.role_outputs import AskInSync
from moldau.broker.stages.coordination import Coordination

if TYPE_CHECKING:
    from sim_cluster_invariants import Batch, Copy, ReplicaLog

_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def shard_of(machine: Machine, partition: Partition) -> Any:
    """The coordinator's shard that this broker has of an internal partition; None: none in this epoch."""
    node = machine.node
    try:
        coordination = node.reached(Coordination)
    except NotStarted:
        return None
    is_of_groups = partition.topic == GROUP_OFFSETS_TOPIC
    elected: Any = coordination.groups if is_of_groups else coordination.transactions
    if elected.made is None:
        return None
    shard = elected.made.runtime._shards.get(partition.index)
    return shard if shard is not None and shard.leader_epoch == partition.leader_epoch else None


def serves(machine: Machine, partition: Partition) -> bool:
    """Whether the broker coordinates by this internal partition, and has loaded it."""
    shard = shard_of(machine, partition)
    return shard is not None and not shard.loading


class RoleInvariants:
    """Of a whole run."""

    def __init__(
        self,
        machines: Mapping[int, Machine],
        log_of: Callable[[int, Copy], ReplicaLog | None],
        last_committed: Callable[[Copy], Batch | None],
        is_unknown: Callable[[int], bool],
    ) -> None:
        """`log_of`: a broker's log. `is_unknown`: whether a broker's files are not what it wrote."""
        self._machines, self._log_of, self._last_committed = machines, log_of, last_committed
        self._is_unknown = is_unknown
        self._prepared: dict[tuple[int, str], tuple[Transaction, dict[str, bytes]]] = {}

    # The leader of a partition

    def asks(
        self, copy: Copy, partition: Partition, state: PartitionState | None, before: AskInSync | None
    ) -> str:
        """A leader asks for another in-sync set; what is wrong with that."""
        role = partition.role
        asked = role.asked
        assert asked is not None
        if before is not None and before[2:] == asked[2:]:
            return f"asks for {asked} while the outcome of {before} is unknown"
        if state is None or state.leader_epoch != asked.leader_epoch:
            return ""  # another one leads: who follows that one may have cut off what this one counts
        for node in asked.in_sync:
            log = self._log_of(node, copy)
            if node in partition.isr or log is None or self._is_unknown(node):
                continue
            if log.end_offset < role.epoch_start_offset:
                return (
                    f"asks for broker {node}, which has {log.end_offset}, and this leader's epoch began at "
                    f"{role.epoch_start_offset}"
                )
        return ""

    def stable(self, partition: Partition, log: ReplicaLog) -> str:
        """What is wrong with the last stable offset."""
        offset, high_watermark = partition.last_stable_offset, partition.high_watermark
        first = log.producers.first_unstable(max(high_watermark, log.known_from))
        limit = max(high_watermark if first is None else min(first, high_watermark), log.start_offset)
        if offset <= limit:
            return ""
        return f"last stable offset {offset}, may be {limit}, the high watermark is {high_watermark}"

    # Decisions of the controller

    def decided(
        self, copy: Copy, was: PartitionState, state: PartitionState, after: Image, *, may_lose: bool
    ) -> str:
        """What is wrong with a change of a partition's metadata."""
        if not state.target and state.replicas not in (was.replicas, was.original):  # moved, not cancelled
            missing = set(state.replicas) - {*was.isr, *state.isr}
            if missing and not may_lose:
                return f"the reassignment ended without {sorted(missing)}: {was} became {state}"
        if (state.leader, state.leader_epoch) != (was.leader, was.leader_epoch) or state.leader < 0:
            return ""
        replicas = getattr(self._machines[state.leader].node, "replicas", None)
        partition = replicas.partition(*copy[:2]) if replicas is not None else None
        asked = partition.role.asked if partition is not None else None
        if asked is None or asked[2:] != (was.leader_epoch, was.partition_epoch):
            return ""
        for node, epoch in zip(asked.in_sync, asked.broker_epochs, strict=True):
            now = after.brokers[node].broker_epoch if node in after.brokers else -1
            if node in state.isr and node not in was.isr and epoch not in (-1, now):
                return f"broker {node} of epoch {now} enters the in-sync set by what it had in epoch {epoch}"
        return ""

    # Coordinators

    def loaded(self, partition: Partition) -> str:
        """A coordinator begins to serve; what it does not know."""
        start = partition.role.epoch_start_offset
        if partition.high_watermark >= start:
            return ""
        return f"its coordinator serves, {partition.high_watermark} of {start} are committed"

    def transactions(self, node: int, machine: Machine, partition: Partition, image: Image | None) -> str:
        """Something was written to the transactions' log here; which of them is complete too early."""
        state = None if image is None else image.topics.get(TRANSACTION_STATE_TOPIC)
        shard = shard_of(machine, partition)
        if state is None or shard is None or image is None:
            return ""
        if state.partitions[partition.index].leader_epoch != partition.leader_epoch:
            return ""  # another coordinator has taken over; this one's records will not be committed
        for name, transaction in shard.state.transactions.items():
            if transaction.state in _PREPARED:
                ids = {topic: image.topics[topic].topic_id for topic, _ in transaction.partitions
                       if topic in image.topics}  # fmt: skip
                self._prepared[node, name] = transaction, ids
                continue
            prepared, ids = self._prepared.pop((node, name), (None, {}))
            if prepared is None or transaction.state not in _COMPLETE:
                continue
            for topic, index in sorted(prepared.partitions):
                fault = self._is_open(prepared, (topic, index, ids.get(topic, b"")), image)
                if fault:
                    return f"transaction {name} is complete, {fault}"
        return ""

    def _is_open(self, prepared: Transaction, copy: Copy, image: Image) -> str:
        topic = image.topics.get(copy[0])
        if topic is None or topic.topic_id != copy[2]:
            return ""
        last = self._last_committed(copy)
        end_offset = 0 if last is None else last.next_offset
        for node in self._machines:
            log = None if self._is_unknown(node) else self._log_of(node, copy)
            if last is None or log is None or log.at(last.base_offset) != last:
                continue  # it lacks some of what is committed, or has diverged
            found = log.producers.open_at(prepared.producer_id, end_offset)
            if found is not None and found[1] <= prepared.producer_epoch:
                return f"{copy[0]}-{copy[1]} has it open at {found[0]} below the high watermark {end_offset}"
        return ""

    # In the end

    def forgotten(self, image: Image) -> list[str]:
        """In-sync replicas that know of a producer something else than what is last in their log."""
        found = []
        for name, topic in image.topics.items():
            for index, state in enumerate(topic.partitions) if name not in INTERNAL_TOPICS else ():
                for node in state.isr:
                    replicas = getattr(self._machines[node].node, "replicas", None)
                    partition = replicas.partition(name, index) if replicas is not None else None
                    log = self._log_of(node, (name, index, topic.topic_id))
                    if partition is None or log is None or self._is_unknown(node):
                        continue
                    known = partition.log.producers.states
                    for producer_id, epoch, sequence in log.producers.last(log.start_offset):
                        held = known.get(producer_id)
                        told = None if held is None else (held.producer_epoch, held.last_sequence)
                        if told is None or told[0] != epoch or (sequence >= 0 and told[1] != sequence):
                            wanted = f"wrote last in epoch {epoch} to sequence {sequence}, known is {told}"
                            found.append(f"{name}-{index} at broker {node}: producer {producer_id} {wanted}")
        return found
