"""Batches behind one that a full disk has refused: the same answer, no gap that clients take for a loss."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.log.appending.lost_writes import REMEMBERED_MS, LostWrites
from moldau.broker.log.files.segment import Segment
from moldau.broker.log.log import Log, Origin
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.core.files import OsFiles
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings

NOW_MS = 1_700_000_000_000
PRODUCER = 7
STORAGE, GAP = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Disk:
    """Whether writes succeed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        write = Segment.write

        def sometimes(segment: Segment, *args: Any) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "no space left")
            write(segment, *args)

        monkeypatch.setattr(Segment, "write", sometimes)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def log(tmp_path: Path, disk: Disk) -> Iterator[Log]:
    opened = open_log(OsFiles(), str(tmp_path / "topic-0"), "topic", 0, TopicSettings()).log
    yield opened
    disk.full = False
    opened.close()


@pytest.fixture
def send(log: Log) -> Callable[..., int]:
    """Append one record with this sequence number, and write it: the error code that the client gets."""

    def send(sequence: int, *, epoch: int = 0, now_ms: int = NOW_MS, size: int = 10) -> int:
        data = build_batch(
            [Record(0, NOW_MS, None, b"x" * size)],
            producer_id=PRODUCER,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        result = log.leader.append(
            memoryview(bytearray(data)), leader_epoch=3, now_ms=now_ms, origin=Origin.CLIENT
        )
        if result.error_code:
            return int(result.error_code)
        try:
            log.writer.flush_staged()
        except OSError:
            return int(STORAGE)
        return 0

    return send


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("size", [10, 100_000])
def test_what_comes_behind_a_refused_batch_is_to_be_sent_again_too(
    send: Callable[..., int], disk: Disk, log: Log, known: bool, size: int
) -> None:
    """The second was under way when the disk refused the first; then there is room again."""
    first = 1 if known else 0
    if known:
        assert send(0) == 0
    disk.full = True
    assert send(first, size=size) == STORAGE
    disk.full = False
    assert send(first + 1) == STORAGE  # unknown producers may begin anywhere: it would have been taken
    assert send(first + 2) == STORAGE
    assert [send(first), send(first + 1), send(first + 2)] == [0, 0, 0]
    assert log.log_end_offset == first + 3
    assert send(first + 5) == GAP


def test_a_batch_that_is_sent_once_more_before_the_refused_one_is_still_a_repetition(
    send: Callable[..., int], disk: Disk, log: Log
) -> None:
    assert [send(0), send(1)] == [0, 0]
    disk.full = True
    assert send(2) == STORAGE
    disk.full = False
    assert send(1) == 0
    assert log.log_end_offset == 2


def test_a_new_epoch_begins_anew(send: Callable[..., int], disk: Disk) -> None:
    assert send(0) == 0
    disk.full = True
    assert send(1) == STORAGE
    disk.full = False
    assert send(3, epoch=1) == GAP
    assert send(0, epoch=1) == 0
    assert send(1, epoch=1) == 0


def test_who_gives_the_refused_batch_up_learns_of_the_gap_in_the_end(
    send: Callable[..., int], disk: Disk
) -> None:
    assert send(0) == 0
    disk.full = True
    assert send(1) == STORAGE
    disk.full = False
    assert send(2, now_ms=NOW_MS) == STORAGE
    assert send(2, now_ms=NOW_MS + REMEMBERED_MS) == STORAGE
    assert send(2, now_ms=NOW_MS + REMEMBERED_MS + 1) == GAP


def test_sequence_numbers_begin_again_at_zero() -> None:
    lost = LostWrites()
    lost.note(PRODUCER, 0, (1 << 31) - 1)
    refusal = lost.judge(PRODUCER, 0, 0, None, NOW_MS)
    assert refusal is not None
    assert lost.judge(PRODUCER, 0, (1 << 31) - 1, None, NOW_MS) is None
    assert lost.judge(PRODUCER, 0, (1 << 31) - 2, None, NOW_MS) is None


def of(producer_id: int, sequence: int, size: int = 10) -> memoryview:
    data = build_batch(
        [Record(0, NOW_MS, None, b"x" * size)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    return memoryview(bytearray(data))


def flushed(log: Log) -> bool:
    try:
        log.writer.flush_staged()
    except OSError:
        return False
    return True


def test_what_is_refused_with_the_rest_of_the_turn_counts_as_refused(log: Log, disk: Disk) -> None:
    """The second producer's batch came in the turn in which the first one's large batch met the full disk."""
    assert log.leader.append(of(1, 0), 3, NOW_MS).error_code == 0
    disk.full = True
    assert log.leader.append(of(1, 1, 100_000), 3, NOW_MS).error_code == STORAGE
    assert log.leader.append(of(2, 0), 3, NOW_MS).error_code == STORAGE
    assert not flushed(log)
    disk.full = False
    assert log.leader.append(of(2, 1), 3, NOW_MS).error_code == STORAGE, "its first batch is still to come"
    assert [log.leader.append(of(2, number), 3, NOW_MS).error_code for number in (0, 1)] == [0, 0]
    assert flushed(log)


@pytest.mark.parametrize("known", [True, False])
def test_a_log_that_takes_nothing_for_a_moment_makes_no_gap_either(
    send: Callable[..., int], log: Log, known: bool
) -> None:
    """It changes its directory, or was cut: the second batch comes before the first comes again."""
    first = 1 if known else 0
    if known:
        assert send(0) == 0
    log.writer.hold()
    assert send(first) == STORAGE
    log.writer.release()
    assert send(first + 1) == STORAGE
    assert [send(first), send(first + 1)] == [0, 0]
    assert send(first + 3) == GAP


@pytest.mark.parametrize("size", [100, 100_000])
def test_what_comes_behind_a_refused_batch_in_the_turn_that_takes_it_is_taken(
    send: Callable[..., int], log: Log, disk: Disk, size: int
) -> None:
    assert send(0) == 0
    disk.full = True
    assert send(1) == STORAGE
    disk.full = False
    codes = [
        log.leader.append(of(PRODUCER, 1), 3, NOW_MS),
        log.leader.append(of(PRODUCER, 2, size), 3, NOW_MS),
    ]
    assert [each.error_code for each in codes] == [0, 0]
    assert flushed(log)
    assert send(3) == 0


@pytest.mark.parametrize("data", [b"", b"x" * 60, bytes(61), b"\xff" * 100])
def test_what_is_no_batch_is_refused_by_a_held_log_too(log: Log, data: bytes) -> None:
    log.writer.hold()
    assert log.leader.append(memoryview(data), 3, NOW_MS).error_code == STORAGE
    log.writer.release()


@pytest.mark.parametrize("how", ["full", "behind", "turn", "held"])
def test_what_is_sent_behind_several_refused_batches_overtakes_none_of_them(
    send: Callable[..., int], log: Log, disk: Disk, how: str
) -> None:
    """The first came again and was written, the second is still on its way, and the third is here."""
    assert send(0) == 0
    disk.full = how != "held"
    if how == "held":
        log.writer.hold()
    if how == "turn":
        assert [log.leader.append(of(PRODUCER, number), 3, NOW_MS).error_code for number in (1, 2)] == [0, 0]
        assert not flushed(log)
    else:
        assert send(1) == STORAGE
        disk.full = how == "full"
        assert send(2) == STORAGE
    disk.full = False
    if how == "held":
        log.writer.release()
    assert send(1) == 0
    assert send(3) == STORAGE
    assert [send(2), send(3)] == [0, 0]
    assert send(5) == GAP
    assert not log.writer.lost
