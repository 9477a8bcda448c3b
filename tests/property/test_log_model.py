"""A log against a plain list: whatever is done to both, they hold the same records and give the same
answers.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.broker.log.log import Log, OffsetOutOfRange
from moldau.broker.log.reading import timestamps
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.records.batch import BatchView, iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

START_MS = 1_700_000_000_000
SETTINGS = TopicSettings(
    internal_segment_bytes=1000,
    index_interval_bytes=120,
    segment_ms=50_000,
    retention_ms=100_000,
    retention_bytes=6000,
)


class LogAndList(RuleBasedStateMachine):
    """The list holds (base offset, last offset, leader epoch, timestamps, bytes) of every batch."""

    @initialize()
    def begin(self) -> None:
        self.files = SimulatedFiles()
        self.now_ms = START_MS
        self.leader_epoch = 0
        self.batches: list[BatchView] = []
        self.staged: list[BatchView] = []
        self.start = 0
        self.log = self.open(clean=False)

    def open(self, *, clean: bool) -> Log:
        return open_log(
            self.files,
            "/d/t-0",
            "t",
            0,
            SETTINGS,
            clean=clean,
            recovery_point=0,
            log_start_offset=self.start,
            now_ms=self.now_ms,
        ).log

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.log.segments[-1].base_offset

    # -- changes -----------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 4),
        size=st.sampled_from([0, 30, 200, 900]),
        delay=st.integers(-30_000, 30_000),
        compression=st.sampled_from(["none", "lz4"]),
    )
    def append(self, count: int, size: int, delay: int, compression: str) -> None:
        records = [Record(i, self.now_ms + delay + i * 7, None, bytes([i]) * size) for i in range(count)]
        data = build_batch(records, compression=compression)
        base = self.log.log_end_offset
        result = self.log.leader.append(memoryview(data), leader_epoch=self.leader_epoch, now_ms=self.now_ms)
        assert (result.error_code, result.base_offset, result.last_offset) == (0, base, base + count - 1)
        placed = base.to_bytes(8, "big") + data[8:12] + self.leader_epoch.to_bytes(4, "big") + data[16:]
        self.staged.append(BatchView(placed))
        # A roll in the middle of a turn writes what is staged.
        while self.staged and self.staged[0].next_offset <= self.log.written_end_offset:
            self.batches.append(self.staged.pop(0))

    @rule()
    def flush(self) -> None:
        self.log.writer.flush_staged()
        self.batches += self.staged
        self.staged = []

    @rule(duration=st.integers(1, 40_000))
    def pass_time(self, duration: int) -> None:
        self.now_ms += duration

    @rule()
    def new_leader(self) -> None:
        self.leader_epoch += 1

    @rule(back=st.integers(0, 20))
    def truncate(self, back: int) -> None:
        self.flush()
        offset = max(self.start, self.log.log_end_offset - back)
        self.log.truncate_to(offset)
        while self.batches and self.batches[-1].next_offset > offset:
            self.batches.pop()
        assert self.log.log_end_offset == (self.batches[-1].next_offset if self.batches else offset) or not (
            self.batches
        )
        self.start = min(self.start, self.log.log_end_offset)

    @rule(ahead=st.integers(0, 500))
    def start_elsewhere(self, ahead: int) -> None:
        self.flush()
        if ahead < 480:
            return
        self.log.truncate_fully_and_start_at(self.log.log_end_offset + ahead)
        self.batches = []
        self.start = self.log.log_end_offset

    @rule(count=st.integers(0, 6))
    def delete_records(self, count: int) -> None:
        offset = min(self.log.written_end_offset, self.start + count)
        self.log.increment_log_start_offset(offset)
        self.start = max(self.start, offset)

    @rule()
    def retain(self) -> None:
        self.flush()
        before = self.log.segments
        removed = self.log.apply_retention(self.now_ms, self.log.log_end_offset)
        assert bool(removed) == (before[0] is not self.log.segments[0])
        self.start = max(self.start, self.log.segments[0].base_offset)
        assert self.log.log_start_offset == self.start
        kept = [segment for segment in before if segment in self.log.segments]
        for segment in kept[:-1]:
            assert segment.max_timestamp_ms >= self.now_ms - 100_000 or segment is not kept[0]
        for path in removed:
            self.files.remove(path)
        self.batches = [b for b in self.batches if b.base_offset >= self.log.segments[0].base_offset]

    @rule()
    def force_to_disk(self) -> None:
        job = self.log.flusher.job()
        if job is not None:
            job.run()
            self.log.flusher.job_done(job)
        assert self.log.flushed_end_offset == self.log.written_end_offset

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        self.flush()
        self.log.close(clean=clean)
        self.log = self.open(clean=clean)

    # -- answers -----------------------------------------------------------------------------------

    @invariant()
    def bounds(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_start_offset == self.start
        assert self.log.flushed_end_offset <= self.log.written_end_offset <= self.log.log_end_offset
        assert self.log.size_bytes == sum(batch.size_bytes for batch in self.batches)
        if self.batches:
            assert self.log.written_end_offset == self.batches[-1].next_offset

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 100, 500, 5000]), one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, one: bool) -> None:
        written = self.log.written_end_offset
        offset = data.draw(st.integers(self.start, written))
        end = data.draw(st.integers(offset, written))
        found = self.log.reader.read(offset, max_bytes, end_offset=end, min_one_batch=one)
        wanted: list[BatchView] = []
        for batch in self.batches:
            if batch.last_offset < offset:
                continue
            if batch.last_offset >= end:
                break
            if sum(b.size_bytes for b in wanted) + batch.size_bytes > max_bytes and (wanted or not one):
                break
            wanted.append(batch)
        got = list(iter_batches(found))
        # A read may end early where a segment ends; it never brings anything else.
        assert [bytes(b.data) for b in got] == [bytes(b.data) for b in wanted[: len(got)]]
        assert bool(got) == bool(wanted)
        if len(got) < len(wanted):
            assert any(segment.base_offset == got[-1].next_offset for segment in self.log.segments)

    @rule(before=st.booleans())
    def read_outside(self, before: bool) -> None:
        offset = self.start - 1 if before else self.log.written_end_offset + 1
        try:
            self.log.reader.read(offset, 100, end_offset=self.log.written_end_offset)
        except OffsetOutOfRange:
            return
        raise AssertionError("an offset outside the log was read")

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def search_by_time(self, data: st.DataObject) -> None:
        times = [b.max_timestamp_ms for b in self.batches]
        wanted = data.draw(st.integers(min(times) - 10, max(times) + 10))
        end = data.draw(st.integers(self.start, self.log.written_end_offset))
        expected = [
            (record.timestamp_ms, record.offset, batch.leader_epoch)
            for batch in self.batches
            for record in batch.records()
            if self.start <= record.offset < end
        ]
        found = timestamps.run(self.log.offset_for_timestamp(wanted, end))
        assert found == next((triple for triple in expected if triple[0] >= wanted), None)
        newest = timestamps.run(self.log.max_timestamp(self.log.written_end_offset))
        everything = [
            record.timestamp_ms
            for batch in self.batches
            for record in batch.records()
            if record.offset >= self.start
        ]
        if newest is not None:
            assert newest.timestamp_ms == max(everything)
        else:
            assert not everything

    @invariant()
    def epochs(self) -> None:
        if not hasattr(self, "log") or self.staged:
            return
        expected: list[tuple[int, int]] = []
        for batch in self.batches:
            if batch.last_offset < self.start:
                continue
            if not expected or expected[-1][0] != batch.leader_epoch:
                expected.append((batch.leader_epoch, max(self.start, batch.base_offset)))
        entries = self.log.epochs.entries()
        assert entries[len(entries) - len(expected) :] == expected
        for leader_epoch, _ in expected[:-1]:
            following = next(start for other, start in expected if other > leader_epoch)
            assert self.log.epoch_end_offset(leader_epoch) == (leader_epoch, following)


TestLogAndList = LogAndList.TestCase
TestLogAndList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
