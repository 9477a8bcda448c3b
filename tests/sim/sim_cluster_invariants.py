"""What must hold of a whole cluster after every callback of each broker.

    one leader         at most one broker leads a partition in a leader epoch; epochs rise
    whole batches      what a replica writes has the crc that its header says
    one history        a batch of one offset and leader epoch is the same on every replica
    committed stays    a replica has, below its high watermark, what any replica had below its own; a new
                       leader has all that was ever below one
    counted by all     when a leader moves its high watermark, each in-sync replica has that much on its disk

The logs are read from the simulated disks themselves, not through the broker's code. Where acknowledged
records may be lost (unclean elections; power cuts without fsync) `may_lose` leaves the last two out.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from sim_machine import DATA, Machine
from torture.reading import Place

from moldau.core.crc import crc32c
from moldau.metadata.image import Image
from moldau.replication.partition import Partition

_HEADER = struct.Struct(">qiiBIhi")
_CRC_BEGINS = 21


class Batch(NamedTuple):
    """A batch as it lies in a file. `crc` covers all but the first three."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int

    def __str__(self) -> str:
        return f"{self.base_offset}..{self.next_offset - 1} of epoch {self.leader_epoch} (crc {self.crc:08x})"


class ReplicaLog:
    """One replica's batches, read from its disk as far as it had them when it was last looked at."""

    def __init__(self, machine: Machine, place: Place) -> None:
        self._files = machine.disk
        self._prefix = f"{DATA}/{place[0]}-{place[1]}/"
        self.batches: list[Batch] = []
        self.damaged: list[Batch] = []
        """Those whose bytes did not fit their crc when they were first seen."""
        self.agreed = 0
        """How many of them are known to be those that are committed."""
        self._lies: list[tuple[str, int, int]] = []  # path, start and end of each batch

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def look(self, end_offset: int) -> list[Batch]:
        """Read on up to the log's end, or from where it was truncated; gives the new batches."""
        files, batches, lies = self._files._names, self.batches, self._lies
        while batches and (batches[-1].next_offset > end_offset or not self._stands()):
            batches.pop()
            lies.pop()
        known = len(batches)
        self.agreed = min(self.agreed, known)
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
                lies.append((path, start, end))
                start = end
        return batches[known:]

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
        self.committed: dict[Place, list[Batch]] = {}
        """The batches below the highest high watermark that any broker had."""
        self.leader_changes = 0
        self._names = {int(machine.settings["node.id"]): machine.name for machine in machines}
        self._leaders: dict[tuple[Place, int], str] = {}
        self._logs: dict[tuple[str, Place], ReplicaLog] = {}
        self._batches: dict[tuple[Place, int, int], Batch] = {}
        self._seen: dict[tuple[str, Place], tuple[int, int, bool, int]] = {}
        for machine in machines:
            machine.after_callback = lambda machine=machine: self.check(machine)  # type: ignore[misc]

    def check(self, machine: Machine) -> None:
        """AssertionError names what does not hold."""
        replicas = getattr(machine.node, "replicas", None)
        if replicas is None:
            return
        seen = self._seen
        for partition in replicas.partitions():
            key = (machine.name, (partition.topic, partition.index))
            now = (
                partition.high_watermark,
                partition.log.written_end_offset,
                partition.leads,
                partition.leader_epoch,
            )
            before = seen.get(key)
            if before != now:
                seen[key] = now
                self._changed(machine, key[1], partition, before)

    def _changed(
        self,
        machine: Machine,
        place: Place,
        partition: Partition,
        before: tuple[int, int, bool, int] | None,
    ) -> None:
        log = self._logs.get((machine.name, place))
        if log is None:
            log = self._logs[machine.name, place] = ReplicaLog(machine, place)
        what = f"{place[0]}-{place[1]} on {machine.name}"
        news = log.look(partition.log.written_end_offset)
        if machine.name in self.damaged:
            return  # its files are not what it wrote; whether that spreads is seen on the others
        assert not log.damaged, f"{what}: damaged: {log.damaged[0]}"
        for batch in news:
            key = (place, batch.base_offset, batch.leader_epoch)
            known = self._batches.setdefault(key, batch)
            assert known == batch or self.may_lose, f"{what}: {batch} is elsewhere {known}"
        committed = self.committed.setdefault(place, [])
        committed_end = committed[-1].next_offset if committed else 0
        if partition.leads and (before is None or before[2:] != (True, partition.leader_epoch)):
            epoch = partition.leader_epoch
            leader = self._leaders.setdefault((place, epoch), machine.name)
            assert leader == machine.name, f"{what} leads in epoch {epoch}, as {leader} does"
            self._agrees(log, committed, committed_end, f"{what}, the new leader")
        high_watermark = partition.high_watermark
        self._agrees(log, committed, min(high_watermark, committed_end), what)
        if high_watermark > committed_end:
            assert log.end_offset >= high_watermark or self.may_lose, (
                f"{what}: high watermark {high_watermark}, its disk has batches only to {log.end_offset}"
            )
            committed += [each for each in log.batches if committed_end <= each.base_offset < high_watermark]
            if partition.leads:
                self._is_held(place, partition, what)

    def _agrees(self, log: ReplicaLog, committed: list[Batch], end_offset: int, what: str) -> None:
        """The log has what is committed below this offset."""
        if self.may_lose:
            return
        batches = log.batches
        while log.agreed < len(committed) and committed[log.agreed].base_offset < end_offset:
            wanted = committed[log.agreed]
            held = batches[log.agreed] if log.agreed < len(batches) else "nothing"
            assert held == wanted, f"{what}: {wanted} was committed, it has {held} there"
            log.agreed += 1

    def _is_held(self, place: Place, partition: Partition, what: str) -> None:
        """By every replica that the leader counts as in sync."""
        if self.may_lose:
            return
        for node in partition.isr:
            other = self._logs.get((self._names[node], place))
            held = other.end_offset if other is not None else 0
            assert held >= partition.high_watermark, (
                f"{what}: high watermark {partition.high_watermark}, in-sync broker {node} has only {held}"
            )

    def appended(self, before: Image, after: Image) -> None:
        """A change of the metadata: leader epochs rise, with every other leader."""
        for name, topic in after.topics.items():
            old = before.topics.get(name)
            if old is None or old is topic or old.topic_id != topic.topic_id:
                continue
            for index, (was, state) in enumerate(zip(old.partitions, topic.partitions, strict=False)):
                if was is state:
                    continue
                self.leader_changes += state.leader != was.leader
                assert state.leader_epoch >= was.leader_epoch + (state.leader != was.leader), (
                    f"{name}-{index}: {was} became {state}"
                )
                assert state.partition_epoch > was.partition_epoch or was == state, (
                    f"{name}-{index}: {was} became {state}"
                )
