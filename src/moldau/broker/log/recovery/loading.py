"""Opens all partitions of a broker's log directories, several at a time, and reports progress.

After a clean stop this is quick and needs no threads. After a crash each log is read from its recovery point
on, at the speed of the disk; the crc checks release the GIL, so threads help.

A log that cannot be opened (damaged beyond recovery, or unreadable) does not affect the others: its partition
is offline, with the cause, and its files stay as they are.
"""

import errno
import logging
import random
import re
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.broker.log.files.checkpoints import (
    ABORTED_TRANSACTIONS_NAME,
    CLEANER_OFFSETS_NAME,
    UNREADABLE_SUFFIX,
    read_topic_id,
)
from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.directory import (
    HIGH_WATERMARK_NAME,
    LOG_START_NAME,
    RECOVERY_POINT_NAME,
    LogDirectory,
)
from moldau.broker.log.files.segment import (
    INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from moldau.broker.log.recovery.recovery import Recovered, Saved, UnreadableLog, open_log
from moldau.common.core.workers import Pool, inline_pool
from moldau.common.settings.topic import TopicSettings

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
"""Set aside: left alone from then on, until a person removes it."""
KRAFT_LOG = "__cluster_metadata"
"""Where a Kafka controller keeps its metadata, in a directory that was once Kafka's: not a partition of ours.
"""
_PARTITION_DIRECTORY = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")
_ANY = 1 << 62
_OF_THE_FILE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ELOOP, errno.EINVAL}
)
"""Errors that concern one file, not the disk."""
_REBUILT = (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    "leader-epoch-checkpoint",
)
_SET_ASIDE_MAX = 16

logger = logging.getLogger("moldau.log.loading")


class RecoveryProgress:
    """How far the opening of logs has come; may be read from any thread."""

    def __init__(self) -> None:
        self.total = 0
        self.done = 0
        self.current = ""
        self.bytes_truncated = 0
        self.offsets_lost = 0
        self.unclean_directories = 0
        self._lock = threading.Lock()

    @property
    def finished(self) -> bool:
        """Whether all logs are open."""
        return self.done >= self.total

    def begin(self, name: str) -> None:
        """This log is being opened now."""
        self.current = name

    def end(self, recovered: Recovered | None) -> None:
        """One more log is open (or given up)."""
        with self._lock:
            self.done += 1
            if recovered is not None:
                self.bytes_truncated += recovered.bytes_truncated
                self.offsets_lost += recovered.offsets_lost
        if self.finished:
            self.current = ""


class Job(NamedTuple):
    """A log to be opened."""

    directory: LogDirectory
    path: str
    topic: str
    partition: int
    saved: Saved
    sole_copy: bool = True
    """Whether no other replica has every committed record."""


class Loaded(NamedTuple):
    """A log that has been opened, in its directory."""

    directory: LogDirectory
    recovered: Recovered
    is_short: bool = False
    """Whether it ends before the offset that its checkpoints promise; others may have what is missing."""


class Unopened(NamedTuple):
    """A log that cannot be opened, and why. Its files stay as they are."""

    job: Job
    cause: str
    passing: bool
    """Whether it may be possible later: the disk is full, or there are too few descriptors."""
    topic_id: bytes | None


class Opened(NamedTuple):
    """The logs of all directories, opened or not."""

    loaded: list[Loaded]
    unopened: list[Unopened]
    leftovers: list[str]
    """Paths of directories that were on their way to be deleted."""
    deleted: dict[LogDirectory, set[tuple[str, int]]]
    """Of which partitions they were."""
    saved: dict[tuple[str, int], int]
    """The highest end that checkpoints tell of, for partitions without a folder."""


def partition_name(directory_name: str) -> tuple[str, int] | None:
    """(topic, partition) of a partition's directory, or None when the directory is something else."""
    match = _PARTITION_DIRECTORY.fullmatch(directory_name)
    return (match["topic"], int(match["partition"])) if match else None


def load_directories(
    directories: Sequence[LogDirectory],
    topic_settings: Callable[[str], TopicSettings],
    progress: RecoveryProgress,
    *,
    threads: int,
    now_ms: int,
    seed: int,
    pool: Pool = inline_pool,
    sole_copy: Callable[[str, int], bool] = lambda topic, partition: True,
) -> Opened:
    """Open every partition in these directories. One whose disk fails is marked offline and skipped.
    `sole_copy`: whether no other replica has every committed record.
    """
    work: list[Job] = []
    leftovers: list[str] = []
    deleted: dict[LogDirectory, set[tuple[str, int]]] = {}
    saved_ends: dict[tuple[str, int], int] = {}
    for directory in directories:
        try:
            names = sorted(directory.files.list_directory(directory.path))
            gone = _on_their_way_out(directory, names, leftovers)
            if gone:
                deleted[directory] = gone
            for job in _jobs(directory, names, gone, saved_ends):
                work.append(job._replace(sole_copy=sole_copy(job.topic, job.partition)))
        except OSError as error:
            directory.report(error)
            continue
        progress.unclean_directories += not directory.was_clean
    progress.total = len(work)

    def open_one(job: Job) -> Loaded | Unopened | None:
        if job.directory.offline:
            progress.end(None)
            return None
        progress.begin(f"{job.topic}-{job.partition}")
        found = open_job(job, topic_settings(job.topic), now_ms, seed)
        progress.end(found.recovered if isinstance(found, Loaded) else None)
        return found

    found = _run(open_one, work, threads * max(1, len(directories)), pool)
    return Opened(
        [each for each in found if isinstance(each, Loaded) and not each.directory.offline],
        [each for each in found if isinstance(each, Unopened) and not each.job.directory.offline],
        leftovers,
        deleted,
        saved_ends,
    )


def _on_their_way_out(
    directory: LogDirectory, names: Sequence[str], leftovers: list[str]
) -> set[tuple[str, int]]:
    """The partitions whose `-delete` folders are still there; these are added to `leftovers`."""
    found: set[tuple[str, int]] = set()
    for name in names:
        path = f"{directory.path}/{name}"
        if name.endswith(DELETE_SUFFIX) and directory.files.is_directory(path):
            leftovers.append(path)
            key = partition_name(name[: name.rfind(".")])
            if key is not None:
                found.add(key)
    return found


def _jobs(
    directory: LogDirectory,
    names: Sequence[str],
    deleted: set[tuple[str, int]],
    saved_ends: dict[tuple[str, int], int],
) -> list[Job]:
    """The logs in one directory, with their checkpointed offsets."""
    recovery_points = directory.read_checkpoint(RECOVERY_POINT_NAME)
    starts = directory.read_checkpoint(LOG_START_NAME)
    cleaned = directory.read_checkpoint(CLEANER_OFFSETS_NAME)
    high_watermarks = directory.read_checkpoint(HIGH_WATERMARK_NAME)
    aborts = _aborts_checksums(directory)
    jobs: list[Job] = []
    for name in names:
        path = f"{directory.path}/{name}"
        key = partition_name(name)
        if key is not None and key[0] != KRAFT_LOG and directory.files.is_directory(path):
            saved = Saved(
                recovery_points.get(key, 0),
                starts.get(key, 0),
                # Before a log is compacted its recovery point is written down. Where that was lost, any gap
                # may be compaction's.
                cleaned.get(key, 0) if recovery_points or not cleaned else _ANY,
                high_watermarks.get(key, 0),
                aborts.get(name, {}) if aborts else None,
            )
            if key in deleted and not directory.was_clean:
                # The checkpoints may speak of a topic that had this name before.
                saved = Saved(cleaned_offset=_ANY)
            jobs.append(Job(directory, path, *key, saved))
    found = {(job.topic, job.partition) for job in jobs}
    for key in sorted(recovery_points.keys() | high_watermarks.keys()):
        if key not in found and key not in deleted:
            end_offset = max(recovery_points.get(key, 0), high_watermarks.get(key, 0), starts.get(key, 0))
            saved_ends[key] = max(end_offset, saved_ends.get(key, 0))
    return jobs


def _aborts_checksums(directory: LogDirectory) -> dict[str, dict[int, int]]:
    """What is known of the indexes of aborted transactions: by log, by base offset; empty when nothing is.

    The file is ours alone: after a clean stop of Kafka, or of an earlier version, it is out of date, and the
    recovery points are not those that were written with it.
    """
    found = directory.read_checkpoint(ABORTED_TRANSACTIONS_NAME)
    stopped_with = found.pop((RECOVERY_POINT_NAME, 0), None)
    if directory.was_clean and found and stopped_with != directory.checkpoint_checksum(RECOVERY_POINT_NAME):
        logger.info("%s in %s is out of date and is ignored", ABORTED_TRANSACTIONS_NAME, directory.path)
        return {}
    aborts: dict[str, dict[int, int]] = {}
    for (log_name, base_offset), value in found.items():
        aborts.setdefault(log_name, {})[base_offset] = value
    return aborts


def open_job(job: Job, settings: TopicSettings, now_ms: int, seed: int) -> Loaded | Unopened | None:
    """Open one log; None when its directory has gone offline with it."""
    directory = job.directory
    name = f"{job.topic}-{job.partition}"
    for _ in range(_SET_ASIDE_MAX):
        try:
            recovered = _opened(job, settings, now_ms, seed)
        except OSError as error:
            if error.errno in _OF_THE_FILE and _set_aside(directory, name, error):
                continue
            if error.errno not in _OF_THE_FILE and directory.report(error):
                return None
            if directory.offline:
                return None
            where = f" ({error.filename})" if error.filename else ""
            return _given_up(job, f"{error.strerror or error}{where}", error.errno not in _OF_THE_FILE)
        except UnreadableLog as error:
            return _given_up(job, str(error))
        except Exception as error:
            logger.exception("%s: opening it failed unexpectedly", name)
            return _given_up(job, f"{type(error).__name__}: {error}")
        promised = max(job.saved.recovery_point, job.saved.high_watermark)
        return Loaded(directory, recovered, recovered.log.log_end_offset < promised)
    return _given_up(job, "too many of its files cannot be read")


def _opened(job: Job, settings: TopicSettings, now_ms: int, seed: int) -> Recovered:
    """The log. After a failure none of its files stays open: on a full disk it is tried for hours."""
    directory, descriptors = job.directory, DescriptorLimit()
    try:
        return open_log(
            directory.files,
            job.path,
            job.topic,
            job.partition,
            settings,
            descriptors=descriptors,
            clean=directory.was_clean,
            recovery_point=job.saved.recovery_point,
            cleaned_offset=job.saved.cleaned_offset,
            log_start_offset=job.saved.log_start_offset,
            high_watermark=job.saved.high_watermark,
            aborts=job.saved.aborts,
            sole_copy=job.sole_copy,
            now_ms=now_ms,
            source=random.Random(f"{seed}/{job.topic}-{job.partition}"),
        )
    except BaseException:
        descriptors.close_all()
        raise


def _given_up(job: Job, cause: str, passing: bool = False) -> Unopened:
    logger.error(
        "%s-%d cannot be opened: %s. Its partition is offline, its files in %s stay as they are; %s",
        job.topic,
        job.partition,
        cause,
        job.path,
        "it is tried again" if passing else "correct the cause and restart the broker",
    )
    try:
        topic_id = read_topic_id(job.directory.files, job.path)
    except OSError:
        topic_id = None
    return Unopened(job, cause, passing, topic_id)


def _set_aside(directory: LogDirectory, name: str, error: OSError) -> bool:
    """Rename a file that cannot be opened and can be made anew; whether that was done."""
    path = error.filename
    if not isinstance(path, str) or not path.endswith(_REBUILT) or not directory.files.exists(path):
        return False
    try:
        directory.files.rename(path, path + UNREADABLE_SUFFIX)
    except OSError:
        return False
    logger.warning(
        "%s: %s cannot be opened (%s): it is renamed to %s and made anew",
        name,
        path,
        error.strerror,
        path + UNREADABLE_SUFFIX,
    )
    return True


def _run(
    open_one: Callable[[Job], Loaded | Unopened | None],
    work: Sequence[Job],
    threads: int,
    pool: Pool,
) -> list[Loaded | Unopened | None]:
    if all(job.directory.was_clean for job in work) or threads <= 1 or len(work) == 1:
        return [open_one(job) for job in work]
    with pool(threads) as several:
        return list(several.map(open_one, work))


__all__ = [
    "Job",
    "Loaded",
    "Opened",
    "RecoveryProgress",
    "Unopened",
    "load_directories",
    "open_job",
    "partition_name",
]
