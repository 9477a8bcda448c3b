"""Random histories of a compacted log, cleaned again and again, against what they mean.

A history has keys, tombstones, plain and idempotent and transactional producers whose transactions commit,
abort or stay open, producers that are forgotten, small segments, a map that holds a few keys, and time that
passes. The log is the real one; what is written down beside it is only every record, and its fate.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.job import (
    CLEANED_SUFFIX,
    NO_DATA_OFFSET,
    CleanJob,
    CleanResult,
    LastRecord,
    Source,
)
from moldau.broker.log.files.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, file_name
from moldau.broker.log.log import Log
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.state.producers import ProducerState
from moldau.broker.log.state.transaction_index import TransactionIndex
from moldau.common.records.batch import BatchView, iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker, parse_end_transaction_marker
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

DIRECTORY = "/d/t-0"
START_MS = 1_700_000_000_000
RETENTION_MS = 10_000
SETTINGS = TopicSettings(
    cleanup_policy=("compact",), internal_segment_bytes=900, index_interval_bytes=150, segment_ms=10**15
)
SEEDS = range(60)

pytestmark = pytest.mark.usefixtures("compaction_kernel")


class Fate(NamedTuple):
    """A record as it was written."""

    record: Record
    producer_id: int
    transactional: bool


class Model:
    """The log, and what was done to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = START_MS
        self.files = SimulatedFiles(now_ms=lambda: self.now_ms)
        self.fates: dict[int, Fate] = {}
        self.aborted: set[int] = set()
        self.open: dict[int, list[int]] = {}
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.first_dirty = 0
        self.clean_since_ms: dict[int, int] = {}
        self.log = self.reopen(clean=False)

    def reopen(self, *, clean: bool, files: SimulatedFiles | None = None) -> Log:
        return open_log(
            files or self.files,
            DIRECTORY,
            "t",
            0,
            SETTINGS,
            clean=clean,
            cleaned_offset=self.first_dirty,
            recovery_point=0 if not clean else self.log.log_end_offset,
            now_ms=self.now_ms,
        ).log

    # -- history -----------------------------------------------------------------------------------

    def step(self) -> None:
        self.now_ms += self.random.choice((1, 50, 900))
        kind = self.random.random()
        if kind < 0.3:
            self.append(-1, transactional=False)
        elif kind < 0.45:
            self.append(self.random.randint(100, 102), transactional=False)
        elif kind < 0.75:
            self.append(self.random.randint(1, 4), transactional=True)
        elif kind < 0.9 and self.open:
            self.end(self.random.choice(sorted(self.open)), committed=self.random.random() < 0.5)
        elif kind < 0.92:
            self.forget(self.random.choice((1, 2, 3, 4, 100, 101, 102)))
        else:
            self.log.writer.roll(self.now_ms)

    def append(self, producer_id: int, *, transactional: bool) -> None:
        count = self.random.choice((1, 1, 2, 5, 12))
        base = self.log.log_end_offset
        records = [self.some_record(base + index) for index in range(count)]
        data = build_batch(
            [record._replace(offset=record.offset - base) for record in records],
            compression=self.random.choice(("none", "none", "lz4", "zstd", "gzip", "snappy")),
            producer_id=producer_id,
            producer_epoch=self.epochs.get(producer_id, 0) if producer_id >= 0 else -1,
            base_sequence=self.sequences.get(producer_id, 0) if producer_id >= 0 else -1,
            transactional=transactional,
        )
        view = memoryview(bytearray(data))
        if transactional and producer_id not in self.open:
            guard = self.log.transactions.begin_verification(producer_id, self.epochs.get(producer_id, 0))
            result = self.log.leader.append_verified(view, 0, self.now_ms, guard)
        else:
            result = self.log.leader.append(view, 0, self.now_ms)
        assert (result.error_code, result.base_offset) == (0, base), result
        self.log.writer.flush_staged()
        if producer_id >= 0:
            self.sequences[producer_id] = self.sequences.get(producer_id, 0) + count
        if transactional:
            self.open.setdefault(producer_id, []).extend(record.offset for record in records)
        for record in records:
            self.fates[record.offset] = Fate(record, producer_id, transactional)

    def some_record(self, offset: int) -> Record:
        key = b"key-%d" % self.random.randrange(9)
        value = None if self.random.random() < 0.2 else b"value-%d" % offset * self.random.randint(1, 9)
        headers = [("h", b"x")] if self.random.random() < 0.2 else []
        timestamp_ms = self.now_ms + self.random.choice((0, -5000, 300))
        return Record(offset, timestamp_ms, key, value, headers)

    def end(self, producer_id: int, *, committed: bool) -> None:
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        epoch = self.epochs.get(producer_id, 0)
        version = 0
        if self.random.random() < 0.4:  # as with transactions of version 2: the marker brings the next epoch
            epoch, version = epoch + 1, 2
            self.epochs[producer_id] = epoch
            self.sequences[producer_id] = 0
        marker = EndTransactionMarker(kind, 0)
        result = self.log.leader.append_marker(marker, producer_id, epoch, 0, self.now_ms, version)
        assert result.error_code == 0, result
        self.log.writer.flush_staged()
        offsets = self.open.pop(producer_id)
        if not committed:
            self.aborted.update(offsets)

    def forget(self, producer_id: int) -> None:
        """As when a producer has not written for long."""
        if producer_id not in self.open:
            self.log.producers.states.pop(producer_id, None)

    # -- cleaning ----------------------------------------------------------------------------------

    def job(self) -> CleanJob | None:
        stable = self.log.transactions.last_stable_offset(self.log.log_end_offset)
        segments = self.log.segments
        until = min(stable, segments[-1].base_offset)
        if self.random.random() < 0.3:
            until = min([until, *(each.base_offset for each in segments if each.base_offset <= until)][-1:])
        chosen = [each for each in segments[:-1] if each.base_offset < until]
        if not chosen or self.first_dirty > until:
            return None
        ends = [each.base_offset for each in segments[1 : len(chosen) + 1]]
        for segment in chosen:
            segment.write_indexes()
        states = self.log.producers.states.items()
        return CleanJob(
            DIRECTORY,
            "t",
            0,
            tuple(
                Source(each.base_offset, end, each.size_bytes) for each, end in zip(chosen, ends, strict=True)
            ),
            self.first_dirty,
            until,
            self.now_ms,
            RETENTION_MS,
            aborted=tuple(self.log.transactions.aborted_in(chosen[0].base_offset, ends[-1])),
            last_records=tuple(
                LastRecord(
                    producer_id,
                    state.producer_epoch,
                    state.batches[-1].last_offset if state.batches else NO_DATA_OFFSET,
                )
                for producer_id, state in states
            ),
            segment_bytes=self.random.choice((900, 2000, 10**6)),
            index_interval_bytes=150,
            dedupe_buffer_bytes=self.random.choice((100, 400, 10**6)),
            io_buffer_bytes=self.random.choice((61, 700, 10**5)),
        )

    def clean(self) -> tuple[CleanJob, CleanResult] | None:
        """One round, put in place by hand; the log goes on with it."""
        job = self.job()
        if job is None:
            return None
        result = clean(self.files, job)
        self.log.close()
        states = dict(self.log.producers.states)
        for group in result.groups:
            for base in group.sources:
                for suffix in SEGMENT_SUFFIXES:
                    self.files.remove(f"{DIRECTORY}/{file_name(base, suffix)}")
            for suffix in SEGMENT_SUFFIXES:
                path = f"{DIRECTORY}/{file_name(group.base_offset, suffix)}"
                if self.files.exists(path + CLEANED_SUFFIX):
                    self.files.rename(path + CLEANED_SUFFIX, path)
        self.first_dirty = result.cleaned_until_offset
        self.check_rebuilt(states)
        self.log = self.reopen(clean=True)
        for offset, fate in self.fates.items():
            if fate.record.value is None and offset < result.cleaned_until_offset:
                self.clean_since_ms.setdefault(offset, self.now_ms)
        return job, result

    def check_rebuilt(self, states: dict[int, ProducerState]) -> None:
        """Without snapshots, from the cleaned log alone, each live producer is again what it was."""
        copy = SimulatedFiles()
        copy.make_directory(DIRECTORY)
        for name in self.files.list_directory(DIRECTORY):
            if name.endswith(SNAPSHOT_SUFFIX):
                continue
            fd = copy.open(f"{DIRECTORY}/{name}", create=True)
            copy.pwrite(fd, content(self.files, f"{DIRECTORY}/{name}"), 0)
            copy.close(fd)
        rebuilt = self.reopen(clean=False, files=copy)
        assert rebuilt.log_end_offset == self.log.log_end_offset
        for producer_id, state in states.items():
            again = rebuilt.producers.states[producer_id]
            assert again.producer_epoch == state.producer_epoch
            assert again.transaction_first_offset == state.transaction_first_offset
            # The largest timestamp is that of the records that are left, and so may be an earlier one.
            assert [batch[:4] for batch in again.batches[-1:]] == [batch[:4] for batch in state.batches[-1:]]
            if state.batches:
                assert (again.last_sequence, again.last_offset) == (state.last_sequence, state.last_offset)
        end = rebuilt.log_end_offset
        assert rebuilt.transactions.last_stable_offset(end) == self.log.transactions.last_stable_offset(end)

    # -- reading -----------------------------------------------------------------------------------

    def batches(self) -> Iterator[BatchView]:
        for segment in self.log.segments:
            yield from iter_batches(content(self.files, segment.path(LOG_SUFFIX)))

    def committed(self) -> list[Record]:
        """What a consumer with read_committed sees from offset 0 on, by the transaction indexes on disk."""
        aborted = []
        for segment in self.log.segments[:-1]:
            index = TransactionIndex(self.files, segment.path(".txnindex"))
            index.load(segment.base_offset)
            aborted += index.entries()
        aborted += [
            entry
            for entry in self.log.transactions.aborted_in(self.log.segments[-1].base_offset, 10**9)
            if entry not in aborted
        ]
        waiting = sorted(aborted, key=lambda entry: -entry.first_offset)
        skipped: set[int] = set()
        seen: list[Record] = []
        stable = self.log.transactions.last_stable_offset(self.log.log_end_offset)
        for batch in self.batches():
            if batch.base_offset >= stable:
                break
            while waiting and waiting[-1].first_offset <= batch.last_offset:
                skipped.add(waiting.pop().producer_id)
            if batch.is_control:
                for record in batch.records():
                    marker = parse_end_transaction_marker(record)
                    if marker is not None and marker.control_type == ControlType.ABORT:
                        skipped.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in skipped):
                seen += batch.records()
        return seen

    def decided(self) -> list[Record]:
        """The committed records below the last stable offset, as written."""
        stable = self.log.transactions.last_stable_offset(self.log.log_end_offset)
        return [
            fate.record
            for offset, fate in sorted(self.fates.items())
            if offset < stable and offset not in self.aborted
        ]


def content(files: SimulatedFiles, path: str) -> bytes:
    fd = files.open(path)
    try:
        return files.pread(fd, files.size_bytes(fd), 0)
    finally:
        files.close(fd)


def latest(records: list[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in records}


def values(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {key: record.value for key, record in latest(records).items() if record.value is not None}


def check_round(model: Model, job: CleanJob, result: CleanResult) -> None:
    before, seen = model.decided(), model.committed()
    assert values(seen) == values(before)
    surviving = {record.offset for record in seen}
    assert surviving <= {record.offset for record in before}, "what was aborted is seen"
    assert [record.offset for record in seen] == sorted(surviving)
    for record in seen:
        written = model.fates[record.offset].record
        assert record._replace(headers=list(record.headers)) == written._replace(
            headers=list(written.headers)
        )
    until = result.cleaned_until_offset
    assert job.first_dirty_offset <= until <= job.first_uncleanable_offset
    assert until > job.first_dirty_offset or until == job.first_uncleanable_offset
    below = [record.key for record in seen if record.offset < until]
    assert len(below) == len(set(below)), "of each key one record is left"
    for record in before:
        if record.offset >= until:
            assert record.offset in surviving
        is_latest = not any(r.key == record.key and r.offset > record.offset for r in before)
        if record.value is None and is_latest:
            clean_since_ms = model.clean_since_ms.get(record.offset)
            if clean_since_ms is None or model.now_ms < clean_since_ms + RETENTION_MS:
                assert record.offset in surviving, "a tombstone went too early"
    everything = {r.offset for batch in model.batches() if not batch.is_control for r in batch.records()}
    assert not {offset for offset in everything & model.aborted if offset < until}
    check_positions(model, sorted({r.offset for batch in model.batches() for r in batch.records()}))


def check_positions(model: Model, left: list[int]) -> None:
    """Whoever asks for any offset gets the next record that is left."""
    end = model.log.log_end_offset
    for offset in range(end):
        expected = next((each for each in left if each >= offset), None)
        found, position = None, offset
        while found is None and position < end:
            data = model.log.reader.read(position, 10**6, end_offset=end)
            if not data:
                break
            records = [r.offset for batch in iter_batches(data) for r in batch.records()]
            found = next((each for each in records if each >= offset), None)
            position = max(model.log.reader.read_end, position + 1)
        assert found == expected, offset


@pytest.mark.parametrize("seed", SEEDS)
def test_cleaning_keeps_what_the_log_means(seed: int) -> None:
    print("seed", seed)
    model = Model(seed)
    for _ in range(8):
        for _ in range(model.random.randint(1, 25)):
            model.step()
        model.now_ms += model.random.choice((0, 0, RETENTION_MS // 2, RETENTION_MS))
        for _ in range(model.random.randint(1, 3)):
            outcome = model.clean()
            if outcome is not None:
                check_round(model, *outcome)


@pytest.mark.parametrize("seed", range(10))
def test_in_the_end_only_values_are_left(seed: int) -> None:
    """With everything decided, all producers forgotten and enough time, no tombstone, no shell and no marker
    without a transaction is left below the active segment, but for the round's last batch.
    """
    print("seed", seed)
    model = Model(1000 + seed)
    for _ in range(120):
        model.step()
    for producer_id in sorted(model.open):
        model.end(producer_id, committed=True)
    for producer_id in (1, 2, 3, 4, 100, 101, 102):
        model.forget(producer_id)
    model.log.writer.roll(model.now_ms)
    for _ in range(6):
        model.now_ms += RETENTION_MS
        for _ in range(40):
            outcome = model.clean()
            assert outcome is not None
            check_round(model, *outcome)
            if outcome[1].cleaned_until_offset == model.log.segments[-1].base_offset:
                break
    batches = list(model.batches())
    assert batches.pop().next_offset == model.log.segments[-1].base_offset, "the round's end"
    records = [record for batch in batches if not batch.is_control for record in batch.records()]
    assert not [record for record in records if record.value is None]
    assert not [batch for batch in batches if not batch.count]
    unended = set()
    for batch in batches:
        if batch.is_control:
            assert batch.producer_id in unended, "a marker without a transaction"
            unended.remove(batch.producer_id)
        elif batch.is_transactional:
            unended.add(batch.producer_id)
