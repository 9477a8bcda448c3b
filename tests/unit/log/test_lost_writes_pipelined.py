"""Producers with five batches under way, at a log whose disk is full now and then, or which is held: in their
own order each record is there once, and nobody is told of a gap.

The producers are as good ones are: what is to be sent again goes before what is new, in order.
"""

from __future__ import annotations

import contextlib
import errno
import random
from typing import Any

import pytest

from moldau.broker.log.log import Log
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

NOW_MS = 1_700_000_000_000
RECORDS = 12
UNDER_WAY_MAX = 5
CALM_AFTER_TURNS = 300


class Producer:
    """One idempotent producer: a batch is a record, and its number the sequence."""

    def __init__(self, producer_id: int, draw: random.Random) -> None:
        self.producer_id = producer_id
        self.to_send = list(range(RECORDS))
        self.on_the_way: list[int] = []
        self.answers: list[tuple[int, bool]] = []
        self.done = 0
        sizes = [draw.choice([10, 10, 200, 70_000]) for _ in range(RECORDS)]
        self.batches = [
            build_batch(
                [Record(0, NOW_MS, None, b"%d " % number + b"x" * sizes[number])],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=number,
            )
            for number in range(RECORDS)
        ]

    def live(self, draw: random.Random) -> None:
        """Take some answers, send something."""
        while self.answers and draw.random() < 0.6:
            number, written = self.answers.pop(0)
            self.done += written
            if not written:
                self.to_send = sorted([number, *self.to_send])
        while (
            self.to_send and len(self.on_the_way) + len(self.answers) < UNDER_WAY_MAX and draw.random() < 0.7
        ):
            self.on_the_way.append(self.to_send.pop(0))


class Disk:
    full = False

    def fault(self, operation: str, path: str) -> None:
        if self.full and operation in ("write", "create"):
            raise OSError(errno.ENOSPC, "no space left", path)


def turn(log: Log, producers: list[Producer], disk: Disk, draw: random.Random, trouble: float) -> None:
    """What the broker does in one turn of its loop."""
    taken: list[tuple[Producer, int, Any]] = []
    disk.full = draw.random() < trouble
    for _ in range(draw.randint(0, 6)):
        one = draw.choice(producers)
        if one.on_the_way:
            number = one.on_the_way.pop(0)
            result = log.leader.append(memoryview(bytearray(one.batches[number])), 3, NOW_MS)
            assert result.error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR), result.error_message
            taken.append((one, number, result))
        if draw.random() < trouble / 3:
            disk.full = not disk.full
    with contextlib.suppress(OSError):
        log.writer.flush_staged()
    for one, number, result in taken:
        written = not result.error_code and result.last_offset < log.written_end_offset
        state = log.producers.states.get(one.producer_id)
        known = () if state is None else state.batches
        one.answers.append((number, written and any(each.base_sequence == number for each in known)))


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_doubled_or_told_to_be_a_gap(seed: int) -> None:
    draw = random.Random(seed)
    files, disk = SimulatedFiles(seed), Disk()
    settings = TopicSettings(internal_segment_bytes=draw.choice([1000, 1 << 20]))
    log = open_log(files, "/t-0", "t", 0, settings).log
    files.fault = disk.fault
    producers = [Producer(number, draw) for number in range(1, draw.randint(2, 4))]
    held, turns = False, 0
    while any(each.done < RECORDS for each in producers):
        turns += 1
        assert turns < 20_000, "it never ends"
        trouble = 0.3 if turns < CALM_AFTER_TURNS else 0.0
        if held and (draw.random() < 0.5 or not trouble):
            log.writer.release()
            held = False
        elif not held and draw.random() < trouble / 3:
            log.writer.hold()
            held = True
        for each in producers:
            each.live(draw)
        turn(log, producers, disk, draw, trouble)
    found: dict[int, list[int]] = {}
    offset = 0
    while offset < log.written_end_offset:
        for batch in iter_batches(log.reader.read(offset, 1 << 20, end_offset=log.written_end_offset)):
            for record in batch.records():
                found.setdefault(batch.producer_id, []).append(int((record.value or b"").split()[0]))
            offset = batch.next_offset
    assert found == {each.producer_id: list(range(RECORDS)) for each in producers}
