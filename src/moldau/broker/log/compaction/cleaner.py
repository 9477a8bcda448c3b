"""Schedules compaction: finds the logs that are due, has them cleaned, swaps the results in.

    look    every log.cleaner.backoff.ms: go through the logs in slices, compute each one's dirty ratio
    clean   the dirtiest in a worker process, up to log.cleaner.threads at once; the event loop goes on
    swap    the result's files by renames, on the loop, if the log still is what the worker was given
    note    the log's directory is fsynced, and only then cleaner-offset-checkpoint written

The checkpoint comes last: an offset beyond what is on the disk would keep old values for ever, while a lower
one only costs another round. After a clean the next look follows at once.

A job's result counts only if the log is still there, not offline, not cut, and begins with the very segments
that were the job's sources; retention waits for the job. Anything else (topic deleted, broker stopping)
cancels the job. A log whose cleaning fails is retried after a pause, and health reports it.

Not here: what is due (selection.py), the cleaning (clean.py, worker.py), what monitoring sees (report.py).
"""

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from moldau.broker.log.compaction.job import (
    NO_DATA_OFFSET,
    Cancelled,
    CleanError,
    CleaningWorker,
    CleanJob,
    CleanResult,
    LastRecord,
    Progress,
    Source,
    Uncleanable,
    WorkerLost,
)
from moldau.broker.log.compaction.report import CompactionReport, LastClean, Running, Trouble
from moldau.broker.log.compaction.selection import ClosedSegment, LogFacts, Range, dirtiest, examine
from moldau.broker.log.compaction.swap import discard, swap_in
from moldau.broker.log.files.segment import LOG_SUFFIX, CorruptSegment, Segment
from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.common.core.timers import TimerHandle
from moldau.common.settings.rows import MAX_LONG

SLICE_LOGS = 100
RETRY_UNCLEANABLE_MS = 600_000
RETRY_FAILED_MS = 60_000
_IO_BUFFER_BYTES_MIN = 64 * 1024

Key = tuple[str, int]
logger = logging.getLogger("moldau.log.compaction.cleaner")


@dataclass(slots=True, eq=False)
class _Round:
    """One log that is being cleaned."""

    log: Log
    job: CleanJob
    segments: tuple[Segment, ...]
    generation: int
    worker: CleaningWorker
    running: Running


class Cleaner:
    """Runs on the event loop by the manager's timers from `start` to `stop`."""

    def __init__(
        self,
        manager: LogManager,
        high_watermark: Callable[[Log], int],
        make_worker: Callable[[], CleaningWorker],
    ) -> None:
        """`high_watermark` says how far a log's records are committed; `make_worker` starts nothing yet."""
        self.report = CompactionReport(manager.clock)
        self._manager = manager
        self._high_watermark = high_watermark
        self._make_worker = make_worker
        self._workers: list[CleaningWorker] = []
        self._rounds: dict[Key, _Round] = {}
        self._generations: dict[Key, int] = {}
        self._timer: TimerHandle | None = None
        self._stopped = False

    def start(self) -> None:
        """Look for the first time now."""
        self._manager.open_logs.on_removed = self._removed
        self._manager.compaction = self.report
        self._schedule(0)

    def stop(self) -> None:
        """Cancel running jobs; their files are removed."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for worker in self._workers:
            worker.close()
        self._workers.clear()

    # -- looking -----------------------------------------------------------------------------------

    def _schedule(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._stopped else self._manager.timers.call_later(delay_ms, self.look)

    def look(self) -> None:
        """Go through the logs, then clean what is due."""
        self.report.looking()
        self._look_at(iter(self._manager), {})

    def _look_at(self, remaining: Iterator[Log], found: dict[Log, Range]) -> None:
        if self._stopped:
            return
        for _ in range(SLICE_LOGS):
            log = next(remaining, None)
            if log is None:
                self._decide(found)
                return
            if log.settings.compacts and not log.offline and not log.is_cutting:
                try:
                    looked = self._examine(log)
                except OSError as error:
                    self._manager.open_logs.storage_failed(log, error)
                    continue
                if looked is not None:
                    found[log] = looked
        self._timer = self._manager.timers.call_later(0, lambda: self._look_at(remaining, found))

    def _examine(self, log: Log) -> Range | None:
        """What could be cleaned in this log; None when it cannot be examined."""
        key, manager = (log.topic, log.partition), self._manager
        now_ms = manager.clock.now_ms()
        lag_matters = log.settings.max_compaction_lag_ms < MAX_LONG
        active = log.segments[-1]
        if lag_matters and active.size_bytes and key not in self._rounds:
            first_ms = _first_ms(active)
            if 0 <= first_ms < now_ms - log.settings.max_compaction_lag_ms:
                # Nobody may write again for long, and an open segment is never cleaned.
                log.writer.roll(now_ms)
        segments = log.segments
        if len(segments) == 1:
            return None
        if log.flusher.recovery_point < segments[-1].base_offset:
            manager.syncing.sync(log)
        if log.flusher.generation != self._generations.get(key, 0):
            # Cut, and perhaps grown again: how much of it is clean is unknown.
            manager.checkpoints.cleaned_offsets.pop(key, None)
            self._generations[key] = log.flusher.generation
        looked = examine(self._facts(log, segments, lag_matters), now_ms)
        if looked.checkpoint_is_wrong:
            logger.info(
                "%s-%d: cleaning begins anew at offset %d",
                log.topic,
                log.partition,
                looked.first_dirty_offset,
            )
            manager.checkpoints.cleaned_offsets[key] = looked.first_dirty_offset
            manager.checkpoints.save_cleaned_offsets(manager.open_logs.directory_of(log))
        return looked

    def _facts(self, log: Log, segments: tuple[Segment, ...], lag_matters: bool) -> LogFacts:
        closed: list[ClosedSegment] = []
        for segment, following in itertools.pairwise(segments):
            newest_ms = segment.max_timestamp_ms
            if newest_ms < 0 and log.settings.min_compaction_lag_ms > 0:
                newest_ms = self._manager.files.modified_ms(segment.path(LOG_SUFFIX))
            first_ms = _first_ms(segment) if lag_matters else -1
            closed.append(
                ClosedSegment(
                    segment.base_offset, following.base_offset, segment.size_bytes, newest_ms, first_ms
                )
            )
        return LogFacts(
            log.settings,
            closed,
            log.log_start_offset,
            log.log_end_offset,
            log.transactions.last_stable_offset(self._high_watermark(log)),
            log.flusher.recovery_point,
            self._manager.checkpoints.cleaned_offsets.get((log.topic, log.partition)),
        )

    def _decide(self, found: dict[Log, Range]) -> None:
        """Begin with the dirtiest logs, as many as there may be workers."""
        self.report.looked({(log.topic, log.partition): each for log, each in found.items()})
        self.report.mark_present({(log.topic, log.partition) for log in self._manager})
        threads = self._manager.settings.log_cleaner_threads
        idle = {
            log: each
            for log, each in found.items()
            if log not in self._manager.open_logs.being_cleaned
            and not log.is_cutting
            and not self.report.in_trouble((log.topic, log.partition))
        }
        begun = len(self._rounds)
        while len(self._rounds) < threads:
            best = dirtiest(idle.values())
            if best is None:
                break
            log = next(log for log, each in idle.items() if each is best)
            del idle[log]
            begun += 1
            self._begin(log, best)
        self._retire_workers(threads)
        over = len(self._rounds) < begun
        self._schedule(0 if over else self._manager.settings.log_cleaner_backoff_ms)

    def _retire_workers(self, threads: int) -> None:
        """Fewer workers may be allowed than before; those that run finish first."""
        taken = {id(each.worker) for each in self._rounds.values()}
        idle = [each for each in self._workers if id(each) not in taken and not each.busy]
        for worker in idle[max(0, threads - len(self._rounds)) :]:
            worker.close()
            self._workers.remove(worker)

    # -- cleaning ----------------------------------------------------------------------------------

    def _begin(self, log: Log, found: Range) -> None:
        key = (log.topic, log.partition)
        segments = tuple(
            each for each in log.segments[:-1] if each.base_offset < found.first_uncleanable_offset
        )
        try:
            discard(self._manager.files, log.directory)
            job = self._job(log, segments, found)
        except OSError as error:
            self._manager.open_logs.storage_failed(log, error)
            return
        except CorruptSegment as error:
            self._failed(log, Uncleanable(str(error)))
            return
        taken = {id(each.worker) for each in self._rounds.values()}
        worker = next((each for each in self._workers if id(each) not in taken and not each.busy), None)
        if worker is None:
            worker = self._make_worker()
            self._workers.append(worker)
        running = Running(key, self._manager.clock.monotonic_ms())
        one = _Round(log, job, segments, log.flusher.generation, worker, running)
        self._rounds[key] = one
        self._manager.open_logs.being_cleaned.add(log)
        self.report.running[key] = running

        def progressed(progress: Progress) -> None:
            running.progress = progress
            if not self._still_wanted(one):
                worker.cancel()

        def done(outcome: CleanResult | Exception) -> None:
            self._done(one, outcome)

        def begin(worked: bool) -> None:
            if worked and self._still_wanted(one) and not self._stopped:
                worker.run(job, progressed, done)
            else:
                done(Cancelled())

        self._manager.checkpoints.save_before_cleaning(log, begin)

    def _job(self, log: Log, segments: tuple[Segment, ...], found: Range) -> CleanJob:
        settings, broker = log.settings, self._manager.settings
        threads = max(1, broker.log_cleaner_threads)
        ends = [each.base_offset for each in log.segments[1 : len(segments) + 1]]
        sources = tuple(
            Source(segment.base_offset, end, segment.size_bytes)
            for segment, end in zip(segments, ends, strict=True)
        )
        last_records = tuple(
            LastRecord(
                producer_id,
                state.producer_epoch,
                state.batches[-1].last_offset if state.batches else NO_DATA_OFFSET,
            )
            for producer_id, state in log.producers.states.items()
        )
        return CleanJob(
            log.directory,
            log.topic,
            log.partition,
            sources,
            found.first_dirty_offset,
            found.first_uncleanable_offset,
            self._manager.clock.now_ms(),
            settings.delete_retention_ms,
            aborted=tuple(log.transactions.aborted_in(sources[0].base_offset, sources[-1].end_offset)),
            last_records=last_records,
            segment_bytes=settings.internal_segment_bytes or settings.segment_bytes,
            segment_index_bytes=settings.segment_index_bytes,
            index_interval_bytes=settings.index_interval_bytes,
            dedupe_buffer_bytes=broker.log_cleaner_dedupe_buffer_size // threads,
            load_factor=broker.log_cleaner_io_buffer_load_factor,
            io_buffer_bytes=max(_IO_BUFFER_BYTES_MIN, broker.log_cleaner_io_buffer_size // threads // 2),
            io_bytes_per_second=broker.log_cleaner_io_max_bytes_per_second / threads,
        )

    def _still_wanted(self, one: _Round) -> bool:
        """Whether the log is still what the job was made for."""
        log = one.log
        return (
            self._manager.get(log.topic, log.partition) is log
            and not log.offline
            and log.flusher.generation == one.generation
            and log.settings.compacts
        )

    def _removed(self, log: Log) -> None:
        """Its files are about to go."""
        key = (log.topic, log.partition)
        self._generations.pop(key, None)
        one = self._rounds.get(key)
        if one is not None and one.log is log:
            one.worker.cancel()

    def _done(self, one: _Round, outcome: CleanResult | Exception) -> None:
        key, log = (one.log.topic, one.log.partition), one.log
        if self._rounds.get(key) is one:
            del self._rounds[key]
            self.report.running.pop(key, None)
        wanted = self._still_wanted(one) and log.segments[: len(one.segments)] == one.segments
        if isinstance(outcome, CleanResult) and wanted:
            self._swap(one, outcome)
            return
        if self._manager.get(*key) is log and not log.offline:
            self._discard(log)
            # (A log that was cut under the worker's hands may look damaged to it.)
            if wanted and isinstance(outcome, Exception) and not isinstance(outcome, Cancelled):
                self._failed(log, outcome)
        self._finished(log)

    def _finished(self, log: Log) -> None:
        """Release the log to retention, and start the next job."""
        self._manager.open_logs.being_cleaned.discard(log)
        self._schedule(0)

    def _discard(self, log: Log) -> None:
        try:
            discard(self._manager.files, log.directory)
        except OSError as error:
            self._manager.open_logs.storage_failed(log, error)

    def _swap(self, one: _Round, result: CleanResult) -> None:
        manager, log = self._manager, one.log
        retired: list[str] = []
        try:
            if result.cleaned_until_offset <= one.job.first_dirty_offset:
                raise CleanError(f"no progress from offset {one.job.first_dirty_offset}")
            swap_in(manager.files, log, one.segments, result.groups, retired)
        except OSError as error:
            manager.open_logs.storage_failed(log, error)
            if not log.offline:
                self._discard(log)
                self._failed(log, error)
            self._finished(log)
            return
        except CleanError as error:
            self._discard(log)
            self._failed(log, error)
            self._finished(log)
            return
        finally:
            manager.remove_files_later(retired, log.settings.file_delete_delay_ms)
        self.report.cleaned(LastClean((log.topic, log.partition), manager.clock.now_ms(), one.job, result))

        def synced(error: OSError | None) -> None:
            if error is None and self._still_wanted(one):
                manager.checkpoints.cleaned_offsets[log.topic, log.partition] = result.cleaned_until_offset
                manager.checkpoints.save_cleaned_offsets(manager.open_logs.directory_of(log))
            self._finished(log)

        manager.syncing.sync(log, synced)

    def _failed(self, log: Log, error: Exception) -> None:
        """Do not try the log again for a while."""
        if isinstance(error, Uncleanable) and error.batch is not None:
            log.reader.note_unreadable(*error.batch)
        now_ms = self._manager.clock.monotonic_ms()
        retry_ms = RETRY_UNCLEANABLE_MS if isinstance(error, Uncleanable) else RETRY_FAILED_MS
        self.report.failed(
            Trouble((log.topic, log.partition), str(error) or type(error).__name__, now_ms + retry_ms),
            worker_lost=isinstance(error, WorkerLost),
        )
        logger.warning(
            "%s-%d could not be compacted, and is tried again after %d s: %s",
            log.topic,
            log.partition,
            retry_ms // 1000,
            error,
        )


def _first_ms(segment: Segment) -> int:
    """The first batch's largest timestamp; -1 when it has none. Read once."""
    if segment.first_timestamp_ms < 0 and segment.size_bytes:
        try:
            place = next(segment.walk(0), None)
        except CorruptSegment:
            return -1
        if place is not None:
            segment.first_timestamp_ms = place.max_timestamp_ms
    return segment.first_timestamp_ms
