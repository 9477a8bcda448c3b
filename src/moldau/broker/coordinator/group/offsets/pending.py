"""Offsets that were committed in transactions which are still open.

They are kept by producer, because one marker settles all of a producer's, and by group, because a partition
with a pending offset is unstable: a fetch of stable offsets has to wait (KIP-447).

    producer 7  ──  (crew, beer, 0) -> order 3, offset 12        crew  ──  (beer, 0) -> producers 7, 8
    producer 8  ──  (crew, beer, 0) -> order 5, superseded

What counts in the end is the committed record that stands last in the log, not the marker that comes last:
compaction keeps the last record, and the state must be the same before and after it. So a pending offset is
*superseded* (its value gone, its partition still unstable) as soon as a later one is committed for its
partition. `order` numbers the pending offsets as they stand in the log.

Everything is journaled. Not here: who may commit (transactional.py), the same rule while a log is
read (coordinator/last_values.py).
"""

from collections.abc import Set
from typing import NamedTuple

from moldau.broker.coordinator.journal import Journal
from moldau.broker.coordinator.result import Producer
from moldau.common.protocol.messages.coordinator_records import OffsetCommitValue


class Place(NamedTuple):
    """What an offset is committed for."""

    group_id: str
    topic: str
    partition: int


class PendingOffset(NamedTuple):
    """One offset of an open transaction; without a value it is superseded."""

    order: int
    value: OffsetCommitValue | None


class PendingOffsets:
    """The pending offsets of one shard."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._order = 0  # grows also when what it numbered is undone
        self.by_producer: dict[int, dict[Place, PendingOffset]] = journal.dict()
        self.epochs: dict[int, int] = journal.dict()
        """The epoch in which each producer last wrote."""
        self.by_group: dict[str, dict[tuple[str, int], tuple[int, ...]]] = journal.dict()

    def add(self, producer: Producer, place: Place, value: OffsetCommitValue | None) -> None:
        """The producer's transaction has a (new) offset for this place."""
        producer_id = producer.producer_id
        offsets = self.by_producer.get(producer_id)
        if offsets is None:
            offsets = self.by_producer[producer_id] = self._journal.dict()
        if self.epochs.get(producer_id) != producer.producer_epoch:
            self.epochs[producer_id] = producer.producer_epoch
        self._order += 1
        offsets[place] = PendingOffset(self._order, value)
        partitions = self.by_group.get(place.group_id)
        if partitions is None:
            partitions = self.by_group[place.group_id] = self._journal.dict()
        writers = partitions.get(place[1:], ())
        if producer_id not in writers:
            partitions[place[1:]] = (*writers, producer_id)

    def supersede(self, place: Place, before: int | None = None) -> None:
        """An offset is committed that stands in the log after all pending ones, or all those with an order
        below `before`."""
        for producer_id in self.writers(place):
            offsets = self.by_producer[producer_id]
            order, value = offsets[place]
            if value is not None and (before is None or order < before):
                offsets[place] = PendingOffset(order, None)

    def drop(self, place: Place) -> None:
        """The offset is deleted, and with it what is pending."""
        for producer_id in self.writers(place):
            del self.by_producer[producer_id][place]
            if not self.by_producer[producer_id]:
                del self.by_producer[producer_id], self.epochs[producer_id]
            self._settled(place, producer_id)

    def end(self, producer_id: int) -> list[tuple[Place, PendingOffset]]:
        """The producer's transaction ends: what it leaves, in the order of the log."""
        offsets = self.by_producer.pop(producer_id, {})
        self.epochs.pop(producer_id, None)
        for place in offsets:
            self._settled(place, producer_id)
        return sorted(offsets.items(), key=lambda item: item[1].order)

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has pending offsets here of this very epoch."""
        return self.epochs.get(producer_id) == producer_epoch

    def writers(self, place: Place) -> tuple[int, ...]:
        """The producers with a pending offset for this place."""
        return self.by_group.get(place.group_id, {}).get(place[1:], ())

    def partitions(self, group_id: str) -> Set[tuple[str, int]]:
        """The (topic, partition)s of a group that are unstable."""
        return self.by_group.get(group_id, {}).keys()

    def _settled(self, place: Place, producer_id: int) -> None:
        partitions = self.by_group[place.group_id]
        writers = tuple(each for each in partitions[place[1:]] if each != producer_id)
        if writers:
            partitions[place[1:]] = writers
            return
        del partitions[place[1:]]
        if not partitions:
            del self.by_group[place.group_id]
