"""The end of an event-loop turn: one write for all that came in it, then the answers.

Each request of a turn stages its batch in its partition's log; the first one schedules `flush` for the end of
the turn. One `pwritev` per partition then writes all staged batches; only after it do high watermarks move
and responses leave. A failed write is rolled back, and its requests get KAFKA_STORAGE_ERROR.

With durability `group`, an fsync on a worker thread follows; partitions written while one fsync runs share
the next. The event loop never waits for an fsync.

Hot: `add` and `flush` run in every turn with appends; budget with the partition (bench/hot_path.py).
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeAlias

from moldau.broker.log.log import Log
from moldau.broker.log.upkeep.flushing import FsyncJob
from moldau.common.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition

log = logging.getLogger("moldau.replication")

_Job: TypeAlias = "tuple[Partition, Log, FsyncJob]"

_RETRY_SECONDS = 0.5


class GroupCommit:
    """Collects the partitions that were appended to, and writes them when the turn ends."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        on_error: "Callable[[Partition, OSError], None]",
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._on_error = on_error
        self._written: list[Partition] = []
        self._to_fsync: dict[Partition, None] = {}  # in the order in which they came
        self._fsync_runs = False
        self._fsync: asyncio.Future[Any] | None = None
        self._beside: dict[asyncio.Future[None], None] = {}
        self.fsync_count = 0
        self.fsync_last_ms = 0.0

    def add(self, partition: "Partition") -> None:
        """The partition's log has staged batches; write them when this turn ends."""
        if not self._written:
            self._loop.call_soon(self.flush)
        self._written.append(partition)

    def flush(self) -> None:
        """Write what is staged, then let each partition answer."""
        partitions, self._written = self._written, []
        for partition in partitions:
            if not partition.online:
                continue  # it was closed in this turn: its appends are answered, its files perhaps deleted
            error = None
            try:
                partition.log.writer.flush_staged()
            except OSError as failure:
                error = failure
                self._on_error(partition, failure)
            except Exception:
                self._take_offline(partition)
                continue
            try:
                partition.after_write(error)
            except Exception:
                self._log_bug(partition)

    @staticmethod
    def _take_offline(partition: "Partition") -> None:
        """A bug in one log: what it holds is unknown, so the partition takes and serves nothing any more. The
        other partitions of the turn are written."""
        log.exception(
            "writing %s-%d failed: this is a bug; the partition is offline until the broker restarts",
            partition.topic,
            partition.index,
        )
        partition.log.offline_cause = "writing it failed by a bug of the broker: see the log"
        partition.log.writer.go_offline()
        partition.close(ErrorCode.KAFKA_STORAGE_ERROR)

    @staticmethod
    def _log_bug(partition: "Partition") -> None:
        """A bug in one response must not affect the other requests of the turn."""
        log.exception("an answer of %s-%d failed: this is a bug", partition.topic, partition.index)

    async def settle(self) -> None:
        """Write what is staged and wait for its fsyncs: afterwards every request that can be answered is."""
        self.flush()
        while self._fsync_runs:
            if self._fsync is None or self._fsync.done():
                await asyncio.sleep(0)  # it begins when this turn ends
            else:
                await asyncio.wait((self._fsync,))

    def run_beside(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run something that waits for the disk on a worker thread, then call `done` on the loop."""
        future = self._loop.run_in_executor(self._executor, work)
        self._beside[future] = None

        def ended(finished: asyncio.Future[None]) -> None:
            self._beside.pop(finished, None)
            error = finished.exception()
            if error is not None and not isinstance(error, OSError):
                raise error
            done(error)

        future.add_done_callback(ended)

    def run_beside_soon(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """As `run_beside`, after a pause."""
        self._loop.call_later(_RETRY_SECONDS, self.run_beside, work, done)

    async def finish(self) -> None:
        """Wait for what runs beside the loop."""
        while self._beside:
            await asyncio.wait(list(self._beside))

    def fsync_soon(self, partition: "Partition") -> None:
        """Have the partition's written batches fsynced, together with all others of the moment."""
        self._to_fsync[partition] = None
        if not self._fsync_runs:
            self._fsync_runs = True
            self._loop.call_soon(self._start_fsync)  # with all others of this turn

    def _start_fsync(self) -> None:
        partitions, self._to_fsync = self._to_fsync, {}
        jobs: list[_Job] = []
        for partition in partitions:
            if not partition.online:
                continue
            try:
                job = partition.log.flusher.job()
            except OSError as error:
                self._fsync_failed(partition, error)
                continue
            if job is not None:
                jobs.append((partition, partition.log, job))
            else:
                # Somebody else has synced it meanwhile (after a roll, or by flush.ms).
                self._advance(partition)
        started = self._loop.time()
        self._fsync = future = self._loop.run_in_executor(self._executor, _run_fsyncs, jobs)
        future.add_done_callback(lambda done: self._fsynced(done.result(), started))

    def _fsynced(self, results: "list[tuple[_Job, OSError | None]]", started: float) -> None:
        self.fsync_count += len(results)
        self.fsync_last_ms = (self._loop.time() - started) * 1000
        for (partition, source, job), error in results:
            if source is not partition.log:
                continue  # it has moved to another directory, where all of it is on the disk
            if error is None:
                source.flusher.job_done(job)
                self._advance(partition)
            else:
                self._fsync_failed(partition, error)
        if self._to_fsync:
            self._start_fsync()
        else:
            self._fsync_runs = False

    def _advance(self, partition: "Partition") -> None:
        try:
            partition.after_fsync()
        except Exception:
            self._log_bug(partition)

    def _fsync_failed(self, partition: "Partition", error: OSError) -> None:
        """A disk error takes the partition offline; a transient one (no descriptor left) is retried."""
        self._on_error(partition, error)
        if partition.online:
            self._loop.call_later(_RETRY_SECONDS, self.fsync_soon, partition)


def _run_fsyncs(jobs: "list[_Job]") -> "list[tuple[_Job, OSError | None]]":
    results: list[tuple[_Job, OSError | None]] = []
    for each in jobs:
        try:
            each[2].run()
            results.append((each, None))
        except OSError as error:
            results.append((each, error))
    return results
