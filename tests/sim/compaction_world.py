"""A compacted log on a simulated disk, with the broker's own manager and cleaner over it, and what must be
true of them: of every key the log gives the latest value, up to where the log ends.
"""

import random
from collections.abc import Callable

from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.cleaner import Cleaner
from moldau.broker.log.compaction.job import CleanError, CleanJob, CleanResult
from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.broker.log.upkeep.housekeeping import Housekeeping
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import Crash, SimulatedFiles

TOPIC_ID = bytes(range(16))
DELETE_RETENTION_MS = 1000


class InlineWorker:
    """Cleans at once, over the same simulated disk."""

    busy = False

    def __init__(self, files: SimulatedFiles) -> None:
        self._files = files

    def run(
        self,
        job: CleanJob,
        on_progress: Callable[..., None],
        done: Callable[[CleanResult | Exception], None],
    ) -> None:
        try:
            result = clean(self._files, job, on_progress, lambda: False)
        except (CleanError, OSError) as error:
            done(error)
        else:
            done(result)

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        pass


LOST: tuple[bytes, bytes | None] = (b"lost", None)


class CompactionWorld:
    """One broker's storage; `start` may be called again after a stop of any kind."""

    def __init__(self, seed: int, *, policy: tuple[str, ...] = ("compact",)) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.files = SimulatedFiles(seed, now_ms=self.clock.now_ms)
        self.settings = TopicSettings(
            internal_segment_bytes=self.random.choice([400, 1200, 5000]),
            index_interval_bytes=self.random.choice([0, 150]),
            segment_index_bytes=400,
            cleanup_policy=policy,
            min_cleanable_dirty_ratio=self.random.choice([0.0, 0.01, 0.5]),
            delete_retention_ms=DELETE_RETENTION_MS,
            file_delete_delay_ms=self.random.choice([0, 500]),
        )
        self.history: list[tuple[bytes, bytes | None]] = []
        """By offset: every record that was appended; LOST where a power cut took it."""
        self.written = 0
        self.synced = 0
        self.sequence = 0
        self.cleans = 0
        self.starting = False
        self.start()

    def start(self) -> None:
        """Open what the disk holds."""
        self.interrupted, self.starting = self.starting, True
        self.timers = ManualTimers(self.clock)
        self.manager = LogManager(
            BrokerSettings(log_cleaner_dedupe_buffer_size=self.random.choice([4096, 1 << 20])),
            clock=self.clock,
            timers=self.timers,
            files=self.files,
            source=random.Random(1),
            paths=("/data",),
        )
        self.manager.startup.load("cluster", 1, lambda topic: self.settings)
        self.log = self.manager.create("accounts", 0, TOPIC_ID, self.settings)
        end = self.log.written_end_offset
        self.kept = end - self.manager.startup.progress.offsets_lost
        if self.interrupted and not self.log.segments[-1].size_bytes:
            # The recovery before this one may have left the lost offsets out already.
            self.kept = self._end_of_batches()
        for offset in range(self.kept, end):
            self.history[offset] = LOST
        self.housekeeping = Housekeeping(self.manager, self.committed)
        self.cleaner = Cleaner(self.manager, self.committed, lambda: InlineWorker(self.files))
        self.cleaner.start()
        self.starting = False

    def _end_of_batches(self) -> int:
        """Behind the last batch that was appended; one without records and producer fills a gap."""
        offset, end = self.log.log_start_offset, 0
        while len(data := self.log.reader.read(offset, 700, end_offset=self.log.written_end_offset)):
            for view in iter_batches(data):
                offset = view.next_offset
                if view.count or view.producer_id >= 0:
                    end = offset
        return end

    @staticmethod
    def committed(log: Log) -> int:
        return log.written_end_offset

    # -- what happens ------------------------------------------------------------------------------

    def work(self, steps: int) -> None:
        """So many random things."""
        for _ in range(steps):
            choice = self.random.random()
            if choice < 0.65:
                self.turn()
            elif choice < 0.75:
                self.sync()
            elif choice < 0.8:
                self.housekeeping.checkpoint()
            elif choice < 0.97:
                self.pass_time()
            else:
                self.restart()

    def turn(self) -> None:
        """A few batches, one write."""
        for _ in range(self.random.randint(1, 4)):
            records = []
            for index in range(self.random.randint(1, 4)):
                key = b"k%d" % self.random.randint(0, self.random.choice([3, 30]))
                size = self.random.choice([0, 10, 100])
                value = None if self.random.random() < 0.15 else self.random.randbytes(size)
                records.append(Record(index, self.clock.now_ms() + index, key, value))
            idempotent = self.random.random() < 0.5
            batch = build_batch(
                records,
                compression=self.random.choice(["none", "zstd"]),
                producer_id=7 if idempotent else -1,
                producer_epoch=0 if idempotent else -1,
                base_sequence=self.sequence if idempotent else -1,
            )
            result = self.log.leader.append(memoryview(batch), leader_epoch=0, now_ms=self.clock.now_ms())
            assert not result.error_code, result
            assert result.base_offset == len(self.history)
            self.history += [(bytes(each.key), each.value) for each in records]
            self.sequence += len(records) if idempotent else 0
        self.log.writer.flush_staged()
        self.written = len(self.history)

    def sync(self) -> None:
        end = self.written
        self.manager.syncing.sync(self.log)
        self.synced = max(self.synced, end)

    def pass_time(self) -> None:
        """The cleaner, deletions and tombstones get their time."""
        self.timers.advance(self.random.choice([1, 600, 20_000]))

    def restart(self) -> None:
        """A stop in order."""
        self.cleaner.stop()
        self.manager.close()
        self.synced = self.written
        self.start()

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

    def no_crash(self) -> None:
        self.files.fault = lambda operation, path: None

    # -- what must be true -------------------------------------------------------------------------

    def check(self, least: int) -> None:
        """The log was kept up to the record number `least`, and says of every key what the history says. What
        was lost behind that has left its offsets unused.
        """
        log, end = self.log, self.log.written_end_offset
        assert max(self.kept, self.written) >= least, f"{least} records were promised, {self.kept} were kept"
        assert end <= len(self.history)
        found: dict[bytes, bytes | None] = {}
        offset, last = log.log_start_offset, -1
        while offset < end:
            data = log.reader.read(offset, 700, end_offset=end)
            if not len(data):
                break
            for view in iter_batches(data):
                assert view.crc_is_valid()
                assert view.base_offset > last, f"offset {view.base_offset} after {last}"
                for record in view.records():
                    assert self.history[record.offset] == (record.key, record.value), record.offset
                    assert record.offset > last
                    last = record.offset
                    found[bytes(record.key or b"")] = record.value
                offset = last = max(last, view.next_offset - 1)
                offset += 1
        expected = dict(each for each in self.history[:end] if each is not LOST)
        assert _living(found) == _living(expected)
        assert not [name for name in self.names() if name.endswith(".swap")]
        self._check_producer(log)
        del self.history[end:]
        self.written, self.synced = end, min(self.synced, end)

    def _check_producer(self, log: Log) -> None:
        state = log.producers.states.get(7)
        self.sequence = 0 if state is None else state.last_sequence + 1

    def names(self) -> list[str]:
        """The files of the partition's directory."""
        return self.files.list_directory(self.log.directory)


def _living(values: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    """Without deleted keys, whose tombstones may be there or gone."""
    return {key: value for key, value in values.items() if value is not None}
