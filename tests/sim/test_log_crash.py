"""A log on a disk that loses power, dies in mid-write, fills up or fails: what is found afterwards is always
a whole prefix.

Every run is decided by its seed; a failure names it. After any stop at any step, and again after a stop
during recovery:

* the log is a prefix of what was appended, byte for byte, and holds at least what was forced to disk (after
  a power cut) or written (after kill -9);
* producers, open transactions, aborted transactions and leader epochs are what the batches in the log say;
* the log takes new records, and gives them back.
"""

import contextlib
import errno
import random

import pytest

from moldau.broker.log.log import Log
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.state.producers import Producers
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.common.records.batch import BatchView, iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
    parse_end_transaction_marker,
)
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import Crash, SimulatedFiles

DIRECTORY = "/data/flights-0"
SETTINGS = TopicSettings(internal_segment_bytes=1500, index_interval_bytes=150, segment_index_bytes=400)
NOW_MS = 1_700_000_000_000
TRANSACTIONAL = (20, 21, 22)


class World:
    """A log, its disk, and what must be true of both."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = SimulatedFiles(seed, now_ms=lambda: NOW_MS)
        self.files.writes_torn = self.random.random() < 0.5
        self.appended: list[bytes] = []
        """Every batch as it should be stored; the staged ones included."""
        self.written = 0
        self.synced = 0
        self.recovery_point = 0
        self.sequences: dict[int, int] = {}
        self.producer_epochs: dict[int, int] = {}
        self.open: set[int] = set()
        """Transactional producers that have a transaction open."""
        self.leader_epoch = 0
        self.log = self.open_log(clean=False)

    def open_log(self, *, clean: bool) -> Log:
        return open_log(
            self.files,
            DIRECTORY,
            "flights",
            0,
            SETTINGS,
            clean=clean,
            recovery_point=self.recovery_point,
            now_ms=NOW_MS,
        ).log

    def crash_after(self, steps: int) -> None:
        """The machine stops at the change number `steps` from now."""

        def fault(operation: str, path: str) -> None:
            nonlocal steps
            if operation in ("read", "list"):
                return
            steps -= 1
            if steps < 0:
                raise Crash

        self.files.fault = fault

    def work(self, steps: int) -> None:
        for _ in range(steps):
            choice = self.random.random()
            if choice < 0.6:
                self.turn()
            elif choice < 0.75:
                self.sync()
            elif choice < 0.85:
                self.recovery_point = self.log.flusher.recovery_point
            elif choice < 0.9:
                self.leader_epoch += 1
            elif choice < 0.95:
                self.log.writer.roll(NOW_MS)
            else:
                self.reopen()

    def turn(self) -> None:
        """A few appends, one flush."""
        for _ in range(self.random.randint(1, 4)):
            self.append()
        self.log.writer.flush_staged()
        self.written = len(self.appended)

    def append(self) -> None:
        producer_id = self.random.choice([-1, 7, 8, *TRANSACTIONAL])
        if producer_id in self.open and self.random.random() < 0.4:
            self.end_transaction(producer_id)
            return
        count = self.random.randint(1, 5)
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        producer_epoch = self.producer_epochs.get(producer_id, 0) if producer_id >= 0 else -1
        size = self.random.choice([0, 10, 100, 600])
        codec = self.random.choice(["none", "none", "zstd"])
        batch = build_batch(
            [Record(index, NOW_MS + index, None, self.random.randbytes(size)) for index in range(count)],
            compression=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            transactional=producer_id in TRANSACTIONAL,
        )
        base = self.expect(batch)
        if producer_id in TRANSACTIONAL:
            guard = self.log.transactions.begin_verification(producer_id, producer_epoch, sequence)
            result = self.log.leader.append_verified(memoryview(batch), self.leader_epoch, NOW_MS, guard)
        else:
            result = self.log.leader.append(memoryview(batch), leader_epoch=self.leader_epoch, now_ms=NOW_MS)
        assert result.error_code == 0, result
        assert result.base_offset == base
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + count
        if producer_id in TRANSACTIONAL:
            self.open.add(producer_id)

    def end_transaction(self, producer_id: int) -> None:
        """With transactions of version 2 the marker has the next epoch, in which numbers begin at 0."""
        marker = EndTransactionMarker(
            self.random.choice([ControlType.ABORT, ControlType.COMMIT]), coordinator_epoch=3
        )
        version = self.random.choice([1, 2])
        producer_epoch = self.producer_epochs.get(producer_id, 0) + version - 1
        base = self.expect(
            build_end_transaction_marker(
                marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=NOW_MS
            )
        )
        result = self.log.leader.append_marker(
            marker, producer_id, producer_epoch, self.leader_epoch, NOW_MS, transaction_version=version
        )
        assert result.error_code == 0, result
        assert result.base_offset == base
        self.open.discard(producer_id)
        self.producer_epochs[producer_id] = producer_epoch
        if version == 2:
            self.sequences[producer_id] = 0

    def expect(self, batch: bytes | bytearray) -> int:
        """Note the batch as it shall be stored; returns its offset."""
        base = self.end_offset()
        stored = bytearray(batch)
        stored[:16] = base.to_bytes(8, "big") + batch[8:12] + self.leader_epoch.to_bytes(4, "big")
        self.appended.append(bytes(stored))
        return base

    def end_offset(self) -> int:
        return BatchView(self.appended[-1]).next_offset if self.appended else 0

    def sync(self) -> None:
        job = self.log.flusher.job()
        if job is not None:
            job.run()
            self.log.flusher.job_done(job)
        self.synced = self.written

    def reopen(self) -> None:
        self.log.close(clean=True)
        self.synced = self.written
        self.recovery_point = self.log.flusher.recovery_point
        if self.random.random() < 0.3:
            # What was closed in order needs no recovery, even if the machine stops then.
            self.files.power_cut()
        self.log = self.open_log(clean=True)
        self.check(self.written)

    # -- what must be true -------------------------------------------------------------------------

    def content(self) -> list[bytes]:
        found: list[bytes] = []
        offset = self.log.log_start_offset
        while offset < self.log.written_end_offset:
            data = self.log.reader.read(offset, 700, end_offset=self.log.written_end_offset)
            assert len(data), f"nothing to read at {offset} below {self.log.written_end_offset}"
            for view in iter_batches(data):
                assert view.crc_is_valid()
                found.append(bytes(view.data))
                offset = view.next_offset
        return found

    def check(self, least: int) -> None:
        found = self.content()
        assert found == self.appended[: len(found)], "the log is not a prefix of what was appended"
        assert len(found) >= least, f"{least} batches were promised, {len(found)} are there"
        expected, epochs = Producers(), []
        for data in found:
            view = BatchView(data)
            expected.replay(view)
            if not epochs or epochs[-1][0] != view.leader_epoch:
                epochs.append((view.leader_epoch, view.base_offset))
        assert {p: s[:6] for p, s in self.log.producers.states.items()} == {
            p: s[:6] for p, s in expected.states.items()
        }
        assert self.log.epochs.entries() == epochs
        self.check_transactions(found)
        self.forget_lost(len(found))

    def check_transactions(self, found: list[bytes]) -> None:
        """What readers are told is what the batches say."""
        begun: dict[int, int] = {}
        aborted: list[AbortedTransaction] = []
        for view in map(BatchView, found):
            if not view.is_control:
                if view.is_transactional:
                    begun.setdefault(view.producer_id, view.base_offset)
                continue
            first = begun.pop(view.producer_id)
            marker = parse_end_transaction_marker(next(iter(view.records())))
            assert marker is not None
            if marker.control_type == ControlType.ABORT:
                stable = min(begun.values(), default=view.base_offset + 1)
                aborted.append(AbortedTransaction(view.producer_id, first, view.base_offset, stable))
        end_offset = self.log.written_end_offset
        assert self.log.transactions.aborted_in(0, end_offset) == aborted
        assert [
            entry for segment in self.log.segments for entry in segment.transaction_index.entries()
        ] == aborted
        assert list(self.log.producers.ongoing.items()) == sorted(
            (first, producer_id) for producer_id, first in begun.items()
        )
        assert self.log.transactions.last_stable_offset(end_offset) == min(begun.values(), default=end_offset)

    def forget_lost(self, kept: int) -> None:
        del self.appended[kept:]
        self.written = kept
        self.synced = min(self.synced, kept)
        self.sequences, self.producer_epochs, self.open = {}, {}, set()
        for view in map(BatchView, self.appended):
            if view.producer_id < 0:
                continue
            if view.is_control:
                self.open.discard(view.producer_id)
            else:
                self.sequences[view.producer_id] = view.base_sequence + view.count
            if view.producer_epoch > self.producer_epochs.get(view.producer_id, 0):
                self.producer_epochs[view.producer_id] = view.producer_epoch
                if view.is_control:
                    self.sequences[view.producer_id] = 0
            if view.is_transactional and not view.is_control:
                self.open.add(view.producer_id)


def stop_and_recover(world: World, power_cut: bool) -> None:
    """Stop, perhaps stop again during recovery, then check."""
    least = world.synced if power_cut else world.written
    while True:
        if power_cut:
            world.files.power_cut()
        else:
            world.files.process_kill()
        if world.random.random() < 0.4:
            world.crash_after(world.random.randint(0, 12))
        else:
            world.files.fault = lambda operation, path: None
        try:
            world.log = world.open_log(clean=False)
        except Crash:
            continue
        break
    world.files.fault = lambda operation, path: None
    world.check(least)


@pytest.mark.parametrize("power_cut", [True, False], ids=["power cut", "kill -9"])
@pytest.mark.parametrize("block", range(8))
def test_what_is_found_after_a_stop_is_a_whole_prefix(block: int, power_cut: bool) -> None:
    for seed in range(block * 50, block * 50 + 50):
        world = World(seed)
        try:
            for _ in range(3):
                world.crash_after(world.random.randint(0, 120))
                with contextlib.suppress(Crash):
                    world.work(40)
                stop_and_recover(world, power_cut)
                world.work(5)
                world.check(world.written)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
@pytest.mark.parametrize("block", range(4))
def test_a_failed_write_leaves_no_trace(block: int, number: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        world = World(seed)
        world.work(10)
        try:
            for _ in range(20):
                fail_one_turn(world, number)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        world.log = world.open_log(clean=False)
        world.check(world.written)


def fail_one_turn(world: World, number: int) -> None:
    """Appends whose flush may fail: then the log is what it was."""
    countdown = world.random.randint(0, 3)

    def fault(operation: str, path: str) -> None:
        nonlocal countdown
        if operation not in ("read", "list", "truncate"):
            countdown -= 1
            if countdown == 0:
                raise OSError(number, "simulated")

    written = world.written
    epochs, states = world.log.epochs.entries(), dict(world.log.producers.states)
    ongoing = list(world.log.producers.ongoing.items())
    world.files.fault = fault
    if world.random.random() < 0.3:
        world.leader_epoch += 1
    try:
        for _ in range(world.random.randint(1, 4)):
            try:
                world.append()
            except AssertionError:
                break
        world.log.writer.flush_staged()
    except OSError:
        del world.appended[written:]
        assert list(world.log.producers.ongoing.items()) == ongoing
        assert world.log.producers.states == states
        assert world.log.epochs.entries() == epochs
    world.files.fault = lambda operation, path: None
    settle(world)
    world.check(written)


def settle(world: World) -> None:
    """What the log has taken is what counts (a refused batch inside a turn is known to its caller)."""
    kept = [data for data in world.appended if BatchView(data).base_offset < world.log.written_end_offset]
    world.forget_lost(len(kept))
