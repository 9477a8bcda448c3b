"""Periodic work on logs: retention, flushes, checkpoints, expiry of producer state, checks for free disk
space.

Ten thousand logs are handled in slices, so that the event loop is never blocked for all of them.
"""

import logging
from collections.abc import Callable, Iterator

from moldau.broker.log.files.checkpoints import ABORTED_TRANSACTIONS_NAME
from moldau.broker.log.files.directory import LOG_START_NAME, RECOVERY_POINT_NAME
from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.common.core.timers import TimerHandle

SLICE_LOGS = 100
ROOM_CHECK_INTERVAL_MS = 1000
FLUSH_CHECK_INTERVAL_MS_MAX = 3000

logger = logging.getLogger("moldau.log.housekeeping")


class Housekeeping:
    """Runs on the manager's timers from `start` to `stop`."""

    def __init__(self, manager: LogManager, high_watermark: Callable[[Log], int]) -> None:
        """`high_watermark` says how far a log's records are committed: nothing above is removed."""
        self._manager = manager
        self._high_watermark = high_watermark
        self._handles: dict[str, TimerHandle] = {}
        self._running = False

    def start(self) -> None:
        """Begin."""
        self._running = True
        settings = self._manager.settings
        flush_ms = min(settings.log_flush_scheduler_interval_ms, FLUSH_CHECK_INTERVAL_MS_MAX)
        self._repeat("retention", settings.log_retention_check_interval_ms, self.retention)
        self._repeat("producers", settings.producer_id_expiration_check_interval_ms, self.expire_producers)
        self._repeat("flush", flush_ms, self.flush_due)
        self._repeat("recovery points", settings.log_flush_offset_checkpoint_interval_ms, self.checkpoint)
        self._repeat("room", ROOM_CHECK_INTERVAL_MS, self.check_room)

    def stop(self) -> None:
        """End; what is under way finishes."""
        self._running = False
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _repeat(self, name: str, interval_ms: int, work: Callable[[], None]) -> None:
        def again() -> None:
            if not self._running:
                return
            try:
                work()
            except Exception:
                logger.exception("the log housekeeping %s failed; it is tried again", name)
            self._repeat(name, interval_ms, work)

        self._handles[name] = self._manager.timers.call_later(max(1, interval_ms), again)

    def _each(self, work: Callable[[Log], None]) -> None:
        """Apply this to every log, a slice at a time."""
        logs = iter(self._manager)

        def slice_of(remaining: Iterator[Log]) -> None:
            for _ in range(SLICE_LOGS):
                log = next(remaining, None)
                if log is None:
                    return
                if not log.offline:
                    work(log)
            self._manager.timers.call_later(0, lambda: slice_of(remaining))

        slice_of(logs)

    def retention(self) -> None:
        """Take old segments out of the logs; their files go after file.delete.delay.ms."""

        def work(log: Log) -> None:
            if log in self._manager.open_logs.being_cleaned:
                return
            try:
                removed = log.apply_retention(self._manager.clock.now_ms(), self._high_watermark(log))
            except OSError as error:
                self._manager.open_logs.storage_failed(log, error)
                return
            self._manager.remove_files_later(removed, log.settings.file_delete_delay_ms)

        self._each(work)

    def expire_producers(self) -> None:
        """Forget producers that have not written for producer.id.expiration.ms."""
        expiration_ms = self._manager.settings.producer_id_expiration_ms
        self._each(lambda log: log.expire_producers(self._manager.clock.now_ms(), expiration_ms))

    def flush_due(self) -> None:
        """Fsync the logs for which flush.messages or flush.ms is reached."""

        def work(log: Log) -> None:
            if log.flusher.is_due(log.settings, self._manager.clock.now_ms()):
                self._manager.syncing.sync(log)

        self._each(work)

    def checkpoint(self) -> None:
        """Write the recovery points and log start offsets."""
        for directory in self._manager.directories:
            if not directory.offline:
                points, starts = self._manager.checkpoints.offsets(directory)
                self._manager.checkpoints.write_in_background(directory, RECOVERY_POINT_NAME, points)
                self._manager.checkpoints.write_in_background(directory, LOG_START_NAME, starts)
                sums = self._manager.checkpoints.aborts_checksums(directory, whole=False)
                if sums is not None:
                    self._manager.checkpoints.write_in_background(directory, ABORTED_TRANSACTIONS_NAME, sums)

    def check_room(self) -> None:
        """Check whether full directories have space again."""
        for directory in self._manager.directories:
            if directory.full:
                directory.check_room()
