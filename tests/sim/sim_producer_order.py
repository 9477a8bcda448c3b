"""What the batches of one producer in one log must look like, read from their bytes.

    | base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4 |
    | timestamps 16 | producer id 8 | producer epoch 2 | base sequence 4 | count 4 | records ...

A batch in the epoch of the one before follows on its last sequence number; a later epoch begins at 0; an
epoch never falls, and neither does the coordinator epoch of markers. What was deleted from the log's
beginning is forgotten: a producer that has nothing left there may go on anywhere.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_PRODUCER = struct.Struct(">qhii")
_PRODUCER_BEGINS = 43
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_BEGIN = 21
_CONTROL = 0x20
_TRANSACTIONAL = 0x10
_COORDINATOR_EPOCH = struct.Struct(">i")


class _Known(NamedTuple):
    base_offset: int
    next_offset: int
    epoch: int
    next_sequence: int
    """-1: a marker."""
    coordinator_epoch: int
    """-1: not a marker."""
    transactional: bool


class ProducerOrder:
    """The batches of all producers of one log, as far as they are there."""

    def __init__(self) -> None:
        self._known: dict[int, list[_Known]] = {}
        self._ids: dict[int, int] = {}  # base offset -> producer id

    def forget(self, base_offset: int) -> None:
        """This batch, the last of the log, was cut off."""
        producer_id = self._ids.pop(base_offset, -1)
        if producer_id >= 0:
            self._known[producer_id].pop()

    def follows(self, content: bytes | bytearray, start: int, next_offset: int, start_offset: int) -> str:
        """Take the next batch of the log; what is wrong with it, or ""."""
        producer_id, epoch, sequence, count = _PRODUCER.unpack_from(content, start + _PRODUCER_BEGINS)
        if producer_id < 0:
            return ""
        base_offset = int.from_bytes(content[start : start + 8], "big")
        attributes = _ATTRIBUTES.unpack_from(content, start + _ATTRIBUTES_BEGIN)[0]
        is_control = attributes & _CONTROL
        coordinator_epoch = -1
        if is_control:  # one record, without headers: its value ends with the coordinator epoch
            end = start + 12 + int.from_bytes(content[start + 8 : start + 12], "big")
            coordinator_epoch = _COORDINATOR_EPOCH.unpack_from(content, end - 5)[0]
        before = [each for each in self._known.get(producer_id, ()) if each.next_offset > start_offset]
        next_sequence = -1 if is_control else (sequence + count) & 0x7FFFFFFF
        transactional = bool(attributes & _TRANSACTIONAL)
        made = _Known(base_offset, next_offset, epoch, next_sequence, coordinator_epoch, transactional)
        self._ids[base_offset] = producer_id
        self._known.setdefault(producer_id, []).append(made)
        return _fault(producer_id, before, made, sequence)

    def open_at(self, producer_id: int, end_offset: int) -> tuple[int, int] | None:
        """Below this offset the log has the producer's transaction open: its first offset and epoch."""
        found = None
        for each in reversed(self._known.get(producer_id, ())):
            if each.base_offset >= end_offset:
                continue
            if each.coordinator_epoch >= 0:
                break
            if each.transactional:
                found = each.base_offset, each.epoch
        return found

    def first_unstable(self, end_offset: int) -> int | None:
        """The first offset of a transaction without a marker below this offset."""
        found = [self.open_at(producer_id, end_offset) for producer_id in self._known]
        return min((each[0] for each in found if each is not None), default=None)

    def last(self, start_offset: int) -> list[tuple[int, int, int]]:
        """Of each producer that has something from this offset on: id, epoch, and last sequence number (-1:
        a marker came last).
        """
        found = []
        for producer_id, known in self._known.items():
            if known and known[-1].next_offset > start_offset:
                last = known[-1]
                sequence = -1 if last.next_sequence < 0 else (last.next_sequence - 1) & 0x7FFFFFFF
                found.append((producer_id, last.epoch, sequence))
        return found


def _fault(producer_id: int, before: list[_Known], made: _Known, sequence: int) -> str:
    if not before:
        return ""
    if made.epoch < before[-1].epoch:
        return f"producer {producer_id} wrote in epoch {made.epoch} after {before[-1].epoch}"
    if made.next_sequence < 0:
        known = max(each.coordinator_epoch for each in before)
        if made.coordinator_epoch < known:
            return f"a marker of coordinator epoch {made.coordinator_epoch} after one of {known}"
        return ""
    last = next((each for each in reversed(before) if each.next_sequence >= 0), None)
    if last is None:
        return ""
    wanted = last.next_sequence if last.epoch == made.epoch else 0
    # Without a transactional id, a producer's numbers in a later epoch begin at 0; in the same, they go on.
    # A coordinator's batches carry no numbers.
    if sequence not in (wanted, -1):
        return f"producer {producer_id} wrote sequence {sequence} of epoch {made.epoch}, expected is {wanted}"
    return ""
