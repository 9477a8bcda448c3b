"""A small data directory, written once by Moldau's own logs, and what must be true of it after damage.

    victim-0    several segments, idempotent and transactional producers, aborted transactions, leader epochs
    witness-0   a few records, which no damage to the other may cost

It is stopped in order or by kill -9, copied for each case, damaged, and opened by a LogManager as a broker
opens it. Everything that was written counts as acknowledged.
"""

import atexit
import logging
import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from moldau.broker.log.log import CorruptSegment, Log
from moldau.broker.log.manager import LogManager
from moldau.common.core.clock import ManualClock
from moldau.common.core.files import OsFiles
from moldau.common.core.timers import ManualTimers
from moldau.common.records.batch import BatchView, CorruptBatch, iter_batches
from moldau.common.records.builder import build_batch, build_simple_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings

VICTIM_ID, WITNESS_ID = bytes(range(16)), bytes(range(16, 32))
NOW_MS = 1_700_000_000_000
SETTINGS = TopicSettings(internal_segment_bytes=1200, index_interval_bytes=200)


class Original(NamedTuple):
    """What was in the logs before the damage."""

    victim: dict[int, bytes]
    """Base offset -> the batch as stored."""
    witness: dict[int, bytes]
    end_offset: int
    aborted: list[tuple[int, int]]
    """Producer id and first offset of each aborted transaction."""


class QuickFiles(OsFiles):
    """Nothing is forced to the disk: no power is cut here, and an fsync is most of the time."""

    @staticmethod
    def sync(fd: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do nothing."""


def manager_of(*folders: Path) -> LogManager:
    clock = ManualClock(NOW_MS)
    return LogManager(
        BrokerSettings(),
        clock=clock,
        timers=ManualTimers(clock),
        files=QuickFiles(),
        source=random.Random(1),
        paths=[str(folder) for folder in folders],
    )


def start(folder: Path, victim_id: bytes = VICTIM_ID) -> tuple[LogManager, Log, Log]:
    """Open the directory as a broker does; the victim's and the witness's log."""
    manager = manager_of(folder)
    manager.startup.load("cluster", 1, lambda topic: SETTINGS)
    victim = manager.create("victim", 0, victim_id, SETTINGS)
    witness = manager.create("witness", 0, WITNESS_ID, SETTINGS)
    manager.startup.is_over()
    return manager, victim, witness


def kill(manager: LogManager) -> None:
    """The process dies: nothing is written any more, the lock is gone."""
    for log in manager:
        log.close(clean=False)
    for directory in manager.directories:
        directory.release()


def append(log: Log, value: bytes = b"value") -> int:
    """One record; its offset, or minus the error code."""
    batch = build_simple_batch([(b"key", value)], NOW_MS)
    result = log.leader.append(memoryview(batch), leader_epoch=3, now_ms=NOW_MS)
    if result.error_code:
        return -result.error_code
    log.writer.flush_staged()
    return result.base_offset


@cache
def template(clean: bool) -> tuple[Path, Original]:
    """The undamaged directory."""
    folder = Path(mkdtemp(prefix="moldau-damage-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    manager, victim, witness = start(folder)
    aborted: list[tuple[int, int]] = []
    for number in range(40):
        if number == 25:
            manager.syncing.sync(victim)
            write_checkpoints(manager)
        if number % 10 == 7:
            aborted += transaction(victim, number)
        else:
            value = b"value %d" % number * 4
            rows = [Record(index, NOW_MS + number, b"key", value) for index in range(number % 3 + 1)]
            batch = build_batch(rows, producer_id=5, producer_epoch=0, base_sequence=_sequence(number))
            assert victim.leader.append(memoryview(batch), number // 20, NOW_MS).error_code == 0
        victim.writer.flush_staged()
        if number % 4 == 0:
            append(witness, b"%d" % number)
    victim.transactions.settle(victim.log_end_offset)
    ends = {(log.topic, log.partition): log.log_end_offset for log in (victim, witness)}
    manager.checkpoints.save_high_watermarks(ends)
    original = Original(content(victim)[0], content(witness)[0], victim.log_end_offset, aborted)
    if clean:
        manager.close()
    else:
        for segment in victim.segments:
            segment.write_indexes()  # some are written as they grow
        kill(manager)
    return folder, original


def transaction(log: Log, number: int) -> list[tuple[int, int]]:
    """One record in a transaction, which is mostly aborted: then producer id and first offset."""
    first, producer_id = log.log_end_offset, 20 + number % 3
    guard = log.transactions.begin_verification(producer_id, number, 0)
    batch = build_batch(
        [Record(0, NOW_MS, None, b"x" * 40)],
        producer_id=producer_id,
        producer_epoch=number,
        base_sequence=0,
        transactional=True,
    )
    assert log.leader.append_verified(memoryview(batch), number // 20, NOW_MS, guard).error_code == 0
    log.writer.flush_staged()
    kind = ControlType.COMMIT if number == 17 else ControlType.ABORT
    marker = EndTransactionMarker(kind, coordinator_epoch=1)
    assert log.leader.append_marker(marker, producer_id, number, number // 20, NOW_MS).error_code == 0
    return [(producer_id, first)] if kind is ControlType.ABORT else []


def _sequence(number: int) -> int:
    return sum(each % 3 + 1 for each in range(number) if each % 10 != 7)


def write_checkpoints(manager: LogManager) -> None:
    """As housekeeping does once a minute."""
    (directory,) = manager.directories
    points, starts = manager.checkpoints.offsets(directory)
    directory.write_checkpoint("recovery-point-offset-checkpoint", points)
    directory.write_checkpoint("log-start-offset-checkpoint", starts)
    sums = manager.checkpoints.aborts_checksums(directory, whole=False)
    directory.write_checkpoint("aborted-transactions-checkpoint", sums or {})


def content(log: Log) -> tuple[dict[int, bytes], list[str]]:
    """All that a reader gets who goes forward, by base offset, and the errors that it got instead."""
    found: dict[int, bytes] = {}
    errors: list[str] = []
    offset, end = log.log_start_offset, log.written_end_offset
    while offset < end:
        try:
            data = log.reader.read(offset, 700, end_offset=end)
            assert len(data), f"a reader stands still at {offset}, before the log's end {end}"
            for view in iter_batches(data):
                assert view.next_offset > offset, (
                    f"offset {offset} was asked for, and {view.base_offset} came"
                )
                if view.count:  # else it fills a gap at the end
                    found[view.base_offset] = bytes(view.data)
                offset = view.next_offset
        except (CorruptSegment, CorruptBatch) as error:
            errors.append(str(error))
            offset = min(
                (each.base_offset for each in log.segments if each.base_offset > offset), default=end
            )
    return found, errors


class Case:
    """One damaged copy."""

    def __init__(self, folder: Path, *, clean: bool) -> None:
        source, self.original = template(clean)
        self.folder = folder / "data"
        shutil.copytree(source, self.folder)
        self.clean = clean

    @property
    def partition(self) -> Path:
        return self.folder / "victim-0"

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.partition.glob(f"*{suffix}"))

    def check(
        self,
        records: list[logging.LogRecord],
        *,
        unnoticed: frozenset[bytes] = frozenset(),
        by_one: bool = False,
    ) -> Log:
        """Start, look, append, kill, look, stop, look. `unnoticed`: damaged batches that only readers notice
        (their crc is wrong, or no crc covers what is wrong). `by_one`: ask for each batch by itself.
        """
        by_one = by_one or bool(unnoticed)
        manager, victim, witness = start(self.folder)
        assert content(witness)[0] == self.original.witness
        served = self._judge(victim, records, unnoticed, by_one)
        if victim.offline:
            assert append(victim) < 0
            manager.close()
            return victim
        offset = append(victim, b"after the damage")
        assert offset >= self.original.end_offset, "an offset that was acknowledged is used again"
        served[offset] = self.content(victim, unnoticed, by_one, offset)[0][offset]
        kill(manager)
        manager, victim, witness = start(self.folder)
        again = self.content(victim, unnoticed, by_one, offset)[0]
        self._same(served, again)
        assert content(witness)[0] == self.original.witness
        manager.close()
        manager, victim, _ = start(self.folder)
        again = self.content(victim, unnoticed, by_one, offset)[0]
        self._same(served, again)
        assert append(victim) > offset
        manager.close()
        return victim

    def _same(self, served: dict[int, bytes], again: dict[int, bytes]) -> None:
        """What was served once is served again. (More may be: recovery finds batches behind damaged ones.)"""
        assert served.items() <= again.items(), "after another start, something is missing"
        more = again.keys() - served.keys()
        assert all(again[base] == self.original.victim.get(base) for base in more)

    def content(
        self, victim: Log, unnoticed: frozenset[bytes], by_one: bool, *more: int
    ) -> tuple[dict[int, bytes], list[str]]:
        """What readers get. Where a damaged batch may be among it, each batch is asked for by itself: behind
        one whose base offset is wrong, a reader that goes on is lost, as with Kafka.
        """
        if not by_one:
            return content(victim)
        found: dict[int, bytes] = {}
        errors: list[str] = []
        for base in [*self.original.victim, *more]:
            if not victim.log_start_offset <= base < victim.written_end_offset:
                continue
            try:
                data = victim.reader.read(base, 10_000, end_offset=victim.written_end_offset)
                view = next(iter_batches(data), None)
            except (CorruptSegment, CorruptBatch) as error:
                errors.append(str(error))
                continue
            if view is None or view.base_offset != base or not view.crc_is_valid():
                errors.append(f"nothing good at {base}")
            elif not view.count:
                errors.append(f"nothing is left at {base}")
            elif bytes(view.data) in unnoticed and self.original.victim.get(base) != bytes(view.data):
                errors.append(f"a damaged batch at {base}")
            else:
                found[base] = bytes(view.data)
        return found, errors

    def _judge(
        self, victim: Log, records: list[logging.LogRecord], unnoticed: frozenset[bytes], by_one: bool
    ) -> dict[int, bytes]:
        told = [r.getMessage() for r in records if r.levelno >= logging.WARNING]
        if victim.offline:
            assert victim.offline_cause
            assert any("victim-0" in each and victim.offline_cause in each for each in told), told
            return {}
        served, errors = self.content(victim, unnoticed, by_one)
        wrong = {base: data for base, data in served.items() if self.original.victim.get(base) != data}
        assert not wrong, f"served at {sorted(wrong)} what was never written there"
        if len(served) < len(self.original.victim) and not unnoticed:
            assert any("victim-0" in each or "checkpoint" in each for each in told), (
                "a loss that nobody was told"
            )
        if not errors:
            self._judge_transactions(victim, served)
        return served

    def _judge_transactions(self, victim: Log, served: dict[int, bytes]) -> None:
        """Of each transaction that is served whole, readers are told that it was aborted."""
        batches = [BatchView(data) for data in served.values()]
        markers = {(each.producer_id, each.producer_epoch) for each in batches if each.is_control}
        for producer_id, first in self.original.aborted:
            data = served.get(first)
            if data is None or (producer_id, BatchView(data).producer_epoch) not in markers:
                continue
            told = victim.transactions.aborted_for_fetch(first, first + 1)
            assert (producer_id, first) in [(each[0], each[1]) for each in told], (
                "an aborted record is visible"
            )
