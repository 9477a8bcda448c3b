"""What must hold of a whole cluster after every callback of each broker.

    one leader         at most one broker leads a partition in a leader epoch; epochs rise
    whole batches      what a replica writes has the crc that its header says
    one history        a batch of one offset and leader epoch is the same on every replica
    committed stays    a replica has, below its high watermark, what any replica had below its own; a new
                       leader has all that was ever below one
    in sync means all  who enters the in-sync set or stays in it as a new registration, and who becomes
                       eligible, has all that was ever below a high watermark
    counted by all     when a leader moves its high watermark, each in-sync replica has that much on its disk
    enough in sync     a leader's high watermark stands still while fewer than min.insync.replicas are in
                       sync: replicas that left meanwhile are eligible (KIP-966)
    leaders commit     no follower's high watermark is above what a leader has said
    members keep       a replica in the in-sync set truncates nothing that is committed
    starts             a log's start is not above its high watermark
    candidates         who leads was in sync or eligible
    producers          in one log a producer's epoch never falls, its batches of an epoch follow on one
                       another, and its markers' coordinator epoch never falls (sim_producer_order.py)

The logs are read from the simulated disks themselves, not through the broker's code; what lies below a
replica's log start offset was deleted, and is not compared. A topic made again under its name is another one.
Where acknowledged records may be lost (unclean elections; power cuts without fsync of all replicas)
`may_lose` leaves the last two out. sim_cluster_roles.py has more, of what brokers believe and decide.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sim_cluster_roles import RoleInvariants, serves
from sim_machine import DATA, Machine
from sim_producer_order import ProducerOrder

from moldau.broker.metadata.image import TRANSACTION_STATE_TOPIC, Image, PartitionState
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.role_outputs import AskInSync
from moldau.common.core.crc import crc32c

_HEADER = struct.Struct(">qiiBIhi")
_CRC_BEGINS = 21

Copy = tuple[str, int, bytes]
"""Topic, partition, topic id."""


class Batch(NamedTuple):
    """A batch as it lies in a file. `crc` covers all but the first three."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int

    def __str__(self) -> str:
        return f"{self.base_offset}..{self.next_offset - 1} of epoch {self.leader_epoch} (crc {self.crc:08x})"


class Seen(NamedTuple):
    """What a partition was when it was last looked at."""

    high_watermark: int
    written_end_offset: int
    leads: bool
    leader_epoch: int
    log_start_offset: int
    asked: AskInSync | None
    serves: bool

    @property
    def leadership(self) -> tuple[bool, int]:
        return self.leads, self.leader_epoch


class ReplicaLog:
    """One replica's batches, read from its disk as far as it had them when it was last looked at."""

    def __init__(self, machine: Machine, topic: str, index: int) -> None:
        self._files = machine.disk
        self._prefix = f"{DATA}/{topic}-{index}/"
        self.batches: list[Batch] = []
        self.damaged: list[Batch] = []
        """Those whose bytes did not fit their crc when they were first seen."""
        self.start_offset = 0
        """What lies below was deleted."""
        self.agreed_offset = 0
        """Below it, all that is here is known to be what is committed."""
        self.known_from = 0
        """Markers below it may count as committed early: a log that is opened, or cut, takes what is open
        from a snapshot, which does not tell what has ended where. (It is decided, and will not change.)"""
        self.opened: Partition | None = None
        """In which life of the broker it was last looked at."""
        self.disorder: list[str] = []
        """What a producer's batches should not be."""
        self.producers = ProducerOrder()
        """Who wrote them."""
        self._lies: list[tuple[str, int, int]] = []  # path, start and end of each batch

    @property
    def end_offset(self) -> int:
        return max(self.start_offset, self.batches[-1].next_offset if self.batches else 0)

    def look(self, start_offset: int, end_offset: int) -> list[Batch]:
        """Read on up to the log's end, or from where it was truncated; gives the new batches."""
        files, batches, lies = self._files._names, self.batches, self._lies
        self.start_offset = start_offset
        len_before = len(batches)
        while batches and (batches[-1].next_offset > end_offset or not self._stands()):
            self.producers.forget(batches.pop().base_offset)
            lies.pop()
        if len(batches) < len_before:
            self.known_from = end_offset
        known = len(batches)
        self.agreed_offset = min(self.agreed_offset, self.end_offset)
        if self.end_offset == end_offset:
            return []
        path_first, _, position = lies[-1] if lies else ("", 0, 0)
        for path in sorted(path for path in files if path.startswith(self._prefix) and path.endswith(".log")):
            if path < path_first:
                continue
            content = files[path].content
            start = position if path == path_first else 0
            while start + _HEADER.size <= len(content):
                base, length, epoch, _, crc, _, last = _HEADER.unpack_from(content, start)
                end = start + 12 + length
                if length <= 0 or end > len(content) or base + last >= end_offset:
                    break
                batches.append(Batch(base, base + last + 1, epoch, crc))
                if crc32c(content[start + _CRC_BEGINS : end]) != crc:
                    self.damaged.append(batches[-1])
                fault = self.producers.follows(content, start, batches[-1].next_offset, start_offset)
                if fault:
                    self.disorder.append(f"{batches[-1]}: {fault}")
                lies.append((path, start, end))
                start = end
        return batches[known:]

    def at(self, base_offset: int) -> Batch | None:
        """The batch that begins there."""
        found = bisect_left(self.batches, base_offset, key=lambda one: one.base_offset)
        batch = self.batches[found] if found < len(self.batches) else None
        return batch if batch is not None and batch.base_offset == base_offset else None

    def content(self, batch: Batch) -> bytes | None:
        """The batch's bytes; None where it is not, or is not any more."""
        found = bisect_left(self.batches, batch.base_offset, key=lambda one: one.base_offset)
        if found == len(self.batches) or self.batches[found] != batch:
            return None
        path, start, end = self._lies[found]
        file = self._files._names.get(path)
        content = b"" if file is None else bytes(file.content[start:end])
        return content if len(content) == end - start else None

    def _stands(self) -> bool:
        """Whether the last batch is still where it was."""
        path, start, end = self._lies[-1]
        file = self._files._names.get(path)
        if file is None or len(file.content) < end:
            return False
        base, _, epoch, _, crc, _, _ = _HEADER.unpack_from(file.content, start)
        batch = self.batches[-1]
        return (base, epoch, crc) == (batch.base_offset, batch.leader_epoch, batch.crc)


class ClusterInvariants:
    """Of a whole run."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.may_lose = False
        """Acknowledged records may be lost: unclean elections, or power cuts without fsync."""
        self.damaged: set[str] = set()
        """Machines whose files were damaged from outside."""
        self.lost: set[int] = set()
        """Node ids of machines that came back with less than they had."""
        self._lost_in: dict[int, int] = {}
        """Their broker epochs in the metadata at the loss."""
        self.committed: dict[Copy, list[Batch]] = {}
        """The batches below the highest high watermark that any broker had."""
        self.leader_changes = 0
        self.image: Callable[[], Image | None] = lambda: None
        """The metadata, as the ensemble has it."""
        self._names = {int(machine.settings["node.id"]): machine.name for machine in machines}
        self._leaders: dict[tuple[Copy, int], str] = {}
        self._logs: dict[tuple[str, Copy], ReplicaLog] = {}
        self._batches: dict[tuple[Copy, int, int], Batch] = {}
        self._seen: dict[tuple[str, Copy], Seen] = {}
        self.roles = RoleInvariants(
            {int(machine.settings["node.id"]): machine for machine in machines},
            lambda node, copy: self._logs.get((self._names[node], copy)),
            lambda copy: (self.committed.get(copy) or [None])[-1],
            lambda node: node in self.lost or self._names[node] in self.damaged,
        )
        for machine in machines:
            machine.after_callback = lambda machine=machine: self.check(machine)  # type: ignore[misc]

    def has_lost(self, machine: Machine) -> None:
        """The machine's disk is not what it was: what it held is no longer held against it."""
        node, image = int(machine.settings["node.id"]), self.image()
        self.lost.add(node)
        if image is not None and node in image.brokers:
            self._lost_in[node] = image.brokers[node].broker_epoch
        for known in (self._logs, self._seen):
            for key in [key for key in known if key[0] == machine.name]:
                del known[key]  # also what was seen: or a log that ends where it did would not be read again

    def content(self, copy: Copy, batch: Batch) -> bytes | None:
        """A batch's bytes as a broker has them whose files are what it wrote; None: no such broker has it."""
        for (name, other), log in self._logs.items():
            if other == copy and name not in self.damaged:
                content = log.content(batch)
                if content is not None:
                    return content
        return None

    def check(self, machine: Machine) -> None:
        """AssertionError names what does not hold."""
        replicas = getattr(machine.node, "replicas", None)
        if replicas is None:
            return
        seen = self._seen
        for partition in replicas.partitions():
            key = (machine.name, (partition.topic, partition.index, partition.topic_id))
            now = Seen(
                partition.high_watermark,
                partition.log.written_end_offset,
                partition.leads,
                partition.leader_epoch,
                partition.log.log_start_offset,
                partition.role.asked,
                partition.internal and serves(machine, partition),
            )
            before = seen.get(key)
            if before != now:
                seen[key] = now
                self._changed(machine, key[1], partition, before, now)

    def _changed(
        self,
        machine: Machine,
        copy: Copy,
        partition: Partition,
        before: Seen | None,
        now: Seen,
    ) -> None:
        log = self._logs.get((machine.name, copy))
        if log is None:
            log = self._logs[machine.name, copy] = ReplicaLog(machine, *copy[:2])
        if log.opened is not partition:
            log.opened, log.known_from = partition, partition.log.written_end_offset
        what = f"{copy[0]}-{copy[1]} on {machine.name}"
        news = log.look(partition.log.log_start_offset, partition.log.written_end_offset)
        if machine.name in self.damaged:
            return  # its files are not what it wrote; whether that spreads is seen on the others
        assert not log.damaged, f"{what}: damaged: {log.damaged[0]}"
        assert not log.disorder or self.may_lose, f"{what}: {log.disorder[0]}"
        assert partition.log.log_start_offset <= partition.high_watermark, (
            f"{what}: the log begins at {partition.log.log_start_offset}, its high watermark is "
            f"{partition.high_watermark}"
        )
        for batch in news:
            key = (copy, batch.base_offset, batch.leader_epoch)
            known = self._batches.setdefault(key, batch)
            assert known == batch or self.may_lose, f"{what}: {batch} is elsewhere {known}"
        committed = self.committed.setdefault(copy, [])
        committed_end = committed[-1].next_offset if committed else 0
        if partition.leads and (before is None or before.leadership != (True, partition.leader_epoch)):
            epoch = partition.leader_epoch
            leader = self._leaders.setdefault((copy, epoch), machine.name)
            assert leader == machine.name, f"{what} leads in epoch {epoch}, as {leader} does"
            self._agrees(log, committed, committed_end, f"{what}, the new leader")
        high_watermark = partition.high_watermark
        self._agrees(log, committed, min(high_watermark, committed_end), what)
        if partition.leads and before is not None and before.leadership == (True, partition.leader_epoch):
            assert high_watermark == before[0] or not partition.is_under_min_in_sync, (
                f"{what}: high watermark {before[0]} -> {high_watermark}, in sync {partition.isr}, needed "
                f"{partition.min_in_sync}"
            )
        if before is not None and partition.log.written_end_offset < min(before[1], committed_end):
            self._is_kept(machine, copy, partition, committed_end, what)
        if high_watermark > committed_end:
            # What a leader with damaged files had is not known: it is not looked at.
            unknown = self.may_lose or bool(self.damaged) or not self._is_led(copy)
            # It may have raised its own as the leader, and heard of the next one in the same turn; one that
            # stood still may hear of both at once (seed 300978).
            led = before is not None and (before.leads or partition.leader_epoch > before.leader_epoch + 1)
            assert partition.leads or led or unknown, (
                f"{what}: a follower's high watermark {high_watermark}, leaders had {committed_end}"
            )
            assert log.end_offset >= high_watermark or self.may_lose, (
                f"{what}: high watermark {high_watermark}, its disk has batches only to {log.end_offset}"
            )
            committed += [each for each in log.batches if committed_end <= each.base_offset < high_watermark]
            if partition.leads:
                self._is_held(copy, partition, what)
        self._believes(machine, copy, partition, before, now, log)

    def _believes(
        self,
        machine: Machine,
        copy: Copy,
        partition: Partition,
        before: Seen | None,
        now: Seen,
        log: ReplicaLog,
    ) -> None:
        """What sim_cluster_roles.py says of it. What a leader with damaged files had may be gone."""
        if self.may_lose or self.damaged:
            return
        roles, faults = self.roles, []
        if now.asked is not None and (before is None or before.asked != now.asked):
            told = before.asked if before is not None else None
            faults.append(roles.asks(copy, partition, self._state(copy), told))
        faults.append(roles.stable(partition, log))
        if now.serves and not (before is not None and before.serves):
            faults.append(roles.loaded(partition))
        if now.serves and copy[0] == TRANSACTION_STATE_TOPIC:
            node = int(machine.settings["node.id"])
            faults.append(roles.transactions(node, machine, partition, self.image()))
        for fault in faults:
            assert not fault, f"{copy[0]}-{copy[1]} on {machine.name}: {fault}"

    def _state(self, copy: Copy) -> PartitionState | None:
        """What the metadata have of the partition now."""
        image = self.image()
        topic = None if image is None else image.topics.get(copy[0])
        if topic is None or topic.topic_id != copy[2] or copy[1] >= len(topic.partitions):
            return None
        return topic.partitions[copy[1]]

    def _is_led(self, copy: Copy) -> bool:
        """Whether the topic is there, and a leader has followers. (A lone replica that finds another topic's
        folder goes on at that one's end: the topic's id may be damaged.)
        """
        state = self._state(copy)
        return state is not None and len(state.replicas) > 1

    def _is_kept(
        self, machine: Machine, copy: Copy, partition: Partition, committed_end: int, what: str
    ) -> None:
        """Who is in sync has not cut off what is committed."""
        node, state = int(machine.settings["node.id"]), self._state(copy)
        if self.may_lose or node in self.lost or state is None or node not in state.isr:
            return
        end_offset = partition.log.written_end_offset
        assert end_offset >= committed_end or state.leader_epoch > partition.leader_epoch, (
            f"{what}: in sync, and cut its log to {end_offset}; {committed_end} is committed"
        )

    def _agrees(self, log: ReplicaLog, committed: list[Batch], end_offset: int, what: str) -> None:
        """The log has what is committed below this offset."""
        if self.may_lose:
            return
        first = bisect_left(committed, log.agreed_offset, key=lambda one: one.base_offset)
        for wanted in committed[first:]:
            if wanted.base_offset >= end_offset:
                break
            held = log.at(wanted.base_offset)
            # What a former leader has below the start of its leader's log is never compared, nor shown
            # (seeds 720438 and 800097): its leader knows no epoch from there.
            deleted = wanted.next_offset <= log.start_offset or (
                wanted.base_offset < log.start_offset and held is None
            )
            assert held == wanted or deleted, (
                f"{what}: {wanted} was committed, it has {held or 'nothing'} there"
            )
            log.agreed_offset = wanted.next_offset

    def _is_held(self, copy: Copy, partition: Partition, what: str) -> None:
        """By every replica that the leader counts as in sync."""
        if self.may_lose:
            return
        members = set(partition.isr)
        state = self._state(copy)
        if state is not None and state.leader_epoch == partition.leader_epoch:
            members |= set(state.isr)  # this leader has asked for them, and was not answered yet
            asked = partition.role.asked
            members |= set(asked.in_sync) if asked is not None else set()  # they may be in it already
        for node in sorted(members):
            if node in self.lost:
                continue  # the leader counts what it had, until it hears that the broker is another one
            other = self._logs.get((self._names[node], copy))
            held = other.end_offset if other is not None else 0
            assert held >= partition.high_watermark, (
                f"{what}: high watermark {partition.high_watermark}, in-sync broker {node} has only {held}"
            )

    def appended(self, before: Image, after: Image) -> None:
        """A change of the metadata: leader epochs rise, with every other leader."""
        anew = {
            node
            for node, broker in after.brokers.items()
            if node not in before.brokers or before.brokers[node].broker_epoch != broker.broker_epoch
        }
        for name, topic in after.topics.items():
            old = before.topics.get(name)
            if old is None or (old is topic and not anew) or old.topic_id != topic.topic_id:
                continue
            for index, (was, state) in enumerate(zip(old.partitions, topic.partitions, strict=False)):
                unheard = {
                    node
                    for node, epoch in self._lost_in.items()
                    if node in after.brokers and after.brokers[node].broker_epoch == epoch
                }
                self._members_have_all((name, index, topic.topic_id), was, state, anew, unheard)
                if was is state:
                    continue
                copy = (name, index, topic.topic_id)
                fault = self.roles.decided(copy, was, state, after, may_lose=self.may_lose)
                assert not fault, f"{name}-{index}: {fault}"
                self.leader_changes += state.leader != was.leader
                assert state.leader in (-1, *state.isr) or self.may_lose, (
                    f"{name}-{index}: the leader is not in sync: {was} became {state}"
                )
                assert (
                    state.leader in (was.leader, -1, *was.isr, *was.elr)
                    or len(state.isr) > 1
                    or self.may_lose
                    or not (was.isr or was.elr)
                    or (state.leader in was.target and not state.target)  # it enters, and so ends the move
                ), f"{name}-{index}: neither in sync nor eligible: {was} became {state}"
                assert state.leader_epoch >= was.leader_epoch + (state.leader != was.leader), (
                    f"{name}-{index}: {was} became {state}"
                )
                assert state.partition_epoch > was.partition_epoch or was == state, (
                    f"{name}-{index}: {was} became {state}"
                )

    def _members_have_all(
        self, copy: Copy, was: PartitionState, state: PartitionState, anew: set[int], unheard: set[int]
    ) -> None:
        """In-sync and eligible replicas that were not, or are registered anew, have what is committed. A
        broker that lost its disk may be the last one that is left. Of the loss of `unheard` the metadata do
        not know: what was asked before arrives after it, and their next registration takes them out again.
        """
        if self.may_lose or not self.committed.get(copy):
            return
        members = {*state.isr, *state.elr}
        for node in sorted(members - {*was.isr, *was.elr} | members & anew & self.lost):
            if len(members) == 1 or node in unheard or self._names[node] in self.damaged:
                continue
            log = self._logs.get((self._names[node], copy))
            lacks = [
                batch
                for batch in self.committed[copy]
                if log is None
                or (log.at(batch.base_offset) != batch and batch.next_offset > log.start_offset)
            ]
            assert not lacks, (
                f"{copy[0]}-{copy[1]}: broker {node} is in sync or eligible without {lacks[0]}: {was} became"
                f" {state}"
            )
