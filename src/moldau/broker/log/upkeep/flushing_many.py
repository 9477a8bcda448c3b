"""Fsyncs many logs at once, blocking: after a recovery, and at a clean stop.

Several at a time, because the file system then writes its journal for several at once; in slices, because
each log that is being forced holds descriptors.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from moldau.broker.log.log import Log
from moldau.broker.log.upkeep.flushing import FsyncJob
from moldau.common.core.workers import Pool

_THREADS = 8
_SLICE_LOGS = 256


def flush_many(
    logs: Sequence[Log],
    prepare: Callable[[Log], FsyncJob | None],
    failed: Callable[[Log, OSError], None],
    pool: Pool,
) -> None:
    """Force many logs to the disk and wait for it. `prepare` gives a log's job, or None; `failed` is called
    where it or the fsync fails.
    """
    with pool(_THREADS) as several:
        for start in range(0, len(logs), _SLICE_LOGS):
            running: list[tuple[Log, FsyncJob, Future[None]]] = []
            for log in logs[start : start + _SLICE_LOGS]:
                try:
                    job = prepare(log)
                except OSError as error:
                    failed(log, error)
                else:
                    if job is not None:
                        running.append((log, job, several.submit(job.run)))
            for log, job, future in running:
                try:
                    future.result()
                except OSError as error:
                    failed(log, error)
                else:
                    log.flusher.job_done(job)
