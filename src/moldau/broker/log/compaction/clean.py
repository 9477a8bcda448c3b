"""Cleaning a log: of every key the latest committed record stays, and whatever a reader or a producer still
needs.

    1. map      read the dirty range, remember the latest offset of each key      (committed data only)
    2. clean    read every source from the log's beginning, write what stays      (filter.py decides)

Nothing of the log changes: the outcome lies beside it in `.cleaned` files, whole and on the disk, until the
broker puts it in (swap.py). When anything fails they are removed again, and where even that fails they are
swept later. If the map is full before the dirty range ends, the round ends there: records behind are kept as
they are, and the next round begins with them. Every round comes at least one record further.

Promised, and checked against a model in tests/property/test_compaction_model.py: the latest committed value
of each key is the same before and after; a record that stays keeps its offset; a reader who begins at any
offset finds the next record that stays; tombstones and markers outlive the cleaning by delete.retention.ms;
the producers' state rebuilt from the log has the same last sequence for each live producer.

Not here: deciding about a batch (filter.py), the process around it (worker.py).
"""

import contextlib
import time
from collections.abc import Callable

from moldau.broker.log.compaction.cleaned_segment import CleanedSegment
from moldau.broker.log.compaction.filter import BatchFilter
from moldau.broker.log.compaction.job import (
    CleanJob,
    CleanResult,
    Group,
    OnProgress,
    Source,
    Statistics,
    Uncleanable,
    UnreadableBatch,
)
from moldau.broker.log.compaction.kernel import KeyMap, choose_kernel
from moldau.broker.log.compaction.pace import CLEANING, JobPace
from moldau.broker.log.compaction.rewrite import Payload, TooLargeToClean, with_payload
from moldau.broker.log.compaction.source import (
    ATTRIBUTES,
    BASE_OFFSET,
    COUNT,
    LAST_OFFSET_DELTA,
    Batch,
    read_batches,
)
from moldau.broker.log.compaction.transactions import AbortedRanges
from moldau.broker.log.files.segment import LOG_SUFFIX, file_name
from moldau.common.core.files import Files
from moldau.common.records.batch import CONTROL, CorruptBatch


def clean(
    files: Files,
    job: CleanJob,
    progress: OnProgress = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CleanResult:
    """Do the job. Raises `Cancelled`, `Uncleanable`, and OSError when the disk fails; then no `.cleaned` file
    of the job is left, unless the disk refuses to remove it.
    """
    pace = JobPace(job.io_bytes_per_second, monotonic, sleep, progress, cancelled)
    return _Cleaning(files, job, pace, monotonic).run()


class _Cleaning:
    """One job under way."""

    def __init__(self, files: Files, job: CleanJob, pace: JobPace, monotonic: Callable[[], float]) -> None:
        self._files = files
        self._job = job
        self._pace = pace
        self._monotonic = monotonic
        self._kernel = choose_kernel()
        self._written: list[CleanedSegment] = []
        self._mapped_records = 0
        self._keyless_records = 0
        self._records_in = 0

    def run(self) -> CleanResult:
        started = self._monotonic()
        job, pace = self._job, self._pace
        dirty = [source for source in job.sources if source.end_offset > job.first_dirty_offset]
        pace.bytes_total = sum(source.size_bytes for source in (*dirty, *job.sources))
        keys = self._kernel.make_map(
            job.first_dirty_offset, job.first_uncleanable_offset, job.dedupe_buffer_bytes, job.load_factor
        )
        map_end_offset = self._build_map(keys, dirty)
        mapped_bytes, mapped_seconds = pace.read_bytes, self._monotonic()
        sources = [source for source in job.sources if source.base_offset < map_end_offset]
        pace.phase = CLEANING
        pace.bytes_total = mapped_bytes + sum(source.size_bytes for source in sources)
        batches = BatchFilter(job, self._kernel, keys, map_end_offset)
        groups = self._write_groups(sources, batches)
        statistics = Statistics(
            mapped_bytes=mapped_bytes,
            mapped_records=self._mapped_records,
            bytes_in=pace.read_bytes - mapped_bytes,
            bytes_out=pace.written_bytes,
            records_in=self._records_in,
            records_out=batches.records_out,
            keyless_records=self._keyless_records,
            keys=keys.key_count,
            keys_max=keys.keys_max,
            mapping_seconds=mapped_seconds - started,
            seconds=self._monotonic() - started,
        )
        return CleanResult(tuple(groups), map_end_offset, statistics)

    def _path(self, source: Source) -> str:
        return f"{self._job.directory}/{file_name(source.base_offset, LOG_SUFFIX)}"

    # -- the map -----------------------------------------------------------------------------------

    def _build_map(self, keys: KeyMap, dirty: list[Source]) -> int:
        """Map the dirty range; returns the offset up to which there was room."""
        job = self._job
        aborted = AbortedRanges(job.aborted)
        for source in dirty:
            path = self._path(source)
            for batch in read_batches(self._files, path, source, job.io_buffer_bytes, self._pace):
                header = batch[0]
                if header[BASE_OFFSET] >= job.first_uncleanable_offset:
                    return job.first_uncleanable_offset
                last_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
                if last_offset < job.first_dirty_offset or header[ATTRIBUTES] & CONTROL:
                    continue
                if aborted.contains(header):
                    continue
                full_at = self._map_batch(keys, batch, path)
                if full_at is not None:
                    return full_at
        return job.first_uncleanable_offset

    def _map_batch(self, keys: KeyMap, batch: Batch, path: str) -> int | None:
        header, kernel = batch[0], self._kernel

        def put(payload: Payload) -> tuple[int | None, int]:
            return kernel.map_keys(
                keys,
                *payload,
                header[COUNT],
                header[BASE_OFFSET],
                header[LAST_OFFSET_DELTA],
                self._job.first_dirty_offset,
            )

        try:
            full_at, keyless = with_payload(batch, kernel.as_payload, put)
        except CorruptBatch as error:
            raise _uncleanable(path, batch, error) from error
        self._mapped_records += header[COUNT]
        self._keyless_records += keyless
        return full_at

    # -- what stays --------------------------------------------------------------------------------

    def _write_groups(self, sources: list[Source], batches: BatchFilter) -> list[Group]:
        groups: list[Group] = []
        try:
            segment: CleanedSegment | None = None
            for source in sources:
                if segment is None or not segment.has_room_for(source):
                    if segment is not None:
                        groups.append(segment.finish())
                    segment = CleanedSegment(self._files, self._job, source, self._pace)
                    self._written.append(segment)
                segment.sources.append(source)
                self._clean_into(segment, source, batches)
            if segment is not None:
                groups.append(segment.finish())
                self._files.sync_directory(self._job.directory)
        except Exception:
            self._abandon()
            raise
        return groups

    def _clean_into(self, segment: CleanedSegment, source: Source, batches: BatchFilter) -> None:
        path = self._path(source)
        for batch in read_batches(self._files, path, source, self._job.io_buffer_bytes, self._pace):
            header = batch[0]
            self._records_in += header[COUNT]
            try:
                kept = batches.judge(batch)
            except CorruptBatch as error:
                raise _uncleanable(path, batch, error) from error
            if kept is None:
                continue
            segment.append(header, kept)
            if batches.aborted_entry is not None:
                segment.add_aborted(batches.aborted_entry)

    def _abandon(self) -> None:
        for segment in self._written:
            with contextlib.suppress(OSError):
                segment.abandon()


def _uncleanable(path: str, batch: Batch, error: CorruptBatch) -> Uncleanable:
    header = batch[0]
    offset = header[BASE_OFFSET]
    if isinstance(error, TooLargeToClean):
        return Uncleanable(f"{path}: the batch with offset {offset} is too large: {error}")
    unreadable = UnreadableBatch(offset, offset + header[LAST_OFFSET_DELTA], str(error))
    return Uncleanable(f"{path}: the batch with offset {offset} cannot be read: {error}", unreadable)
