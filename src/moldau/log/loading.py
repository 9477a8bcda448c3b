"""Opening all partitions of a broker's log directories, several at a time, and saying how far it has come.

After a clean stop this is quick and needs no threads' help. After a crash each log is read from its recovery
point on, which takes as long as the disk; the checks (crc) release the interpreter's lock, so that threads do
help.
"""

import logging
import random
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from moldau.core.settings.topic import TopicSettings
from moldau.log.checkpoints import CLEANER_OFFSETS_NAME
from moldau.log.directory import LOG_START_NAME, RECOVERY_POINT_NAME, LogDirectory
from moldau.log.recovery import Recovered, UnreadableLog, open_log

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
"""Set aside: left alone from then on, until a person removes it."""
KRAFT_LOG = "__cluster_metadata"
"""Where a Kafka controller keeps its metadata, in a directory that was once Kafka's: not a partition of ours.
"""
_PARTITION_DIRECTORY = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")
_ANY = 1 << 62
_Work: TypeAlias = tuple[LogDirectory, str, tuple[str, int], int, int, int]

logger = logging.getLogger(__name__)


class RecoveryProgress:
    """How far the opening of logs has come; may be read from any thread."""

    def __init__(self) -> None:
        self.total = 0
        self.done = 0
        self.current = ""
        self.bytes_truncated = 0
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
        """One log more is open (or given up)."""
        with self._lock:
            self.done += 1
            if recovered is not None:
                self.bytes_truncated += recovered.bytes_truncated
        if self.finished:
            self.current = ""


class Loaded(NamedTuple):
    """A log that has been opened, in its directory."""

    directory: LogDirectory
    recovered: Recovered


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
) -> tuple[list[Loaded], list[str]]:
    """Open every partition in these directories.

    Returns them, and the paths of directories that were on their way to be deleted. A directory whose disk
    fails is marked offline and skipped. UnreadableLog stops everything: the broker must not run over data
    that it cannot read.
    """
    work: list[_Work] = []
    leftovers: list[str] = []
    for directory in directories:
        try:
            recovery_points = directory.read_checkpoint(RECOVERY_POINT_NAME)
            starts = directory.read_checkpoint(LOG_START_NAME)
            cleaned = directory.read_checkpoint(CLEANER_OFFSETS_NAME)
            names = sorted(directory.files.list_directory(directory.path))
        except OSError as error:
            directory.report(error)
            continue
        progress.unclean_directories += not directory.was_clean
        for name in names:
            path = f"{directory.path}/{name}"
            if name.endswith(DELETE_SUFFIX) and directory.files.is_directory(path):
                leftovers.append(path)
                continue
            key = partition_name(name)
            if key is not None and key[0] != KRAFT_LOG and directory.files.is_directory(path):
                # Before a log is compacted its recovery point is written down. Where that was lost, any gap
                # may be compaction's.
                cleaned_offset = cleaned.get(key, 0) if recovery_points or not cleaned else _ANY
                offsets = (recovery_points.get(key, 0), starts.get(key, 0), cleaned_offset)
                work.append((directory, path, key, *offsets))
    progress.total = len(work)

    def open_one(job: _Work) -> Loaded | None:
        directory, path, (topic, partition), recovery_point, log_start_offset, cleaned_offset = job
        if directory.offline:
            progress.end(None)
            return None
        progress.begin(f"{topic}-{partition}")
        recovered: Recovered | None = None
        try:
            recovered = open_log(
                directory.files,
                path,
                topic,
                partition,
                topic_settings(topic),
                clean=directory.was_clean,
                recovery_point=recovery_point,
                cleaned_offset=cleaned_offset,
                log_start_offset=log_start_offset,
                now_ms=now_ms,
                source=random.Random(f"{seed}/{topic}/{partition}"),
            )
        except OSError as error:
            directory.report(error)
        finally:
            progress.end(recovered)
        return Loaded(directory, recovered) if recovered is not None else None

    loaded = _run(open_one, work, threads * max(1, len(directories)))
    return [one for one in loaded if one is not None and not one.directory.offline], leftovers


def _run(
    open_one: Callable[[_Work], Loaded | None],
    work: Sequence[_Work],
    threads: int,
) -> list[Loaded | None]:
    if all(job[0].was_clean for job in work) or threads <= 1 or len(work) == 1:
        return [open_one(job) for job in work]
    with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
        return list(pool.map(open_one, work))


__all__ = ["Loaded", "RecoveryProgress", "UnreadableLog", "load_directories", "partition_name"]
