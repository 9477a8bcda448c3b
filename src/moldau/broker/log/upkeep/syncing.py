"""Fsyncs of logs on demand (flush.ms, a rolled segment, compaction), one at a time for each log.

Not here: the fsync that acknowledged appends share (replication/group_commit.py).
"""

import errno
from collections.abc import Callable

from moldau.broker.log.log import Log
from moldau.broker.log.upkeep.background import Background
from moldau.common.core.clock import Clock
from moldau.common.core.timers import Timers

Done = Callable[[OSError | None], None]


class Syncing:
    """The logs that are being fsynced."""

    def __init__(
        self, clock: Clock, timers: Timers, background: Background, failed: Callable[[Log, OSError], None]
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._background = background
        self._failed = failed
        self._under_way: set[Log] = set()

    def rolled(self, log: Log) -> None:
        """A segment is full: fsync it soon."""
        self._timers.call_later(0, lambda: self.sync(log))

    def sync(self, log: Log, done: Done | None = None) -> None:
        """Fsync the log in the background; `done(error or None)` is called on the loop."""
        if log.offline:
            if done is not None:
                done(OSError(errno.EIO, "the log's directory is offline", log.directory))
            return
        if log in self._under_way:
            if done is not None:
                # It may have begun before the caller's records were written.
                self._timers.call_later(1, lambda: self.sync(log, done))
            return
        try:
            job = log.flusher.job()
        except OSError as error:
            if done is not None:
                done(error)
            return
        if job is None:
            if done is not None:
                done(None)
            return
        self._under_way.add(log)

        def finished(error: BaseException | None) -> None:
            self._under_way.discard(log)
            log.flusher.last_flush_ms = self._clock.now_ms()
            failure = error if isinstance(error, OSError) or error is None else OSError(str(error))
            if failure is None:
                log.flusher.job_done(job)
            else:
                self._failed(log, failure)
            if done is not None:
                done(failure)

        self._background.run(job.run, finished)
