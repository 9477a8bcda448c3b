"""Keeps the logs that could not be opened at the start; each is offline alone, its files untouched.

    start ──> add ──> the partition is asked for ──> opened now   (there is room, or a descriptor, again)
                                                └──> offline      (damage: clients get the cause)
                                                └──> set aside    (another topic's folder)
                  ──> no partition of the metadata, or deleted ──> renamed

Their lines in the checkpoints are kept as well, so that the next start can decide as this one did.

Invariant: an entry is here exactly as long as its folder has its usual name and no log of it is open.
Not here: opening (loading.py), the stand-in that clients meet (offline.py), removing files (removal.py).
"""

import errno
import logging
import random
from collections.abc import Callable, Iterator

from moldau.broker.log.files.checkpoints import CLEANER_OFFSETS_NAME
from moldau.broker.log.files.directory import (
    HIGH_WATERMARK_NAME,
    LOG_START_NAME,
    RECOVERY_POINT_NAME,
    LogDirectory,
)
from moldau.broker.log.log import Log
from moldau.broker.log.recovery.loading import STRAY_SUFFIX, Loaded, Unopened, open_job
from moldau.broker.log.recovery.offline import offline_log
from moldau.common.core.clock import Clock
from moldau.common.core.files import Files
from moldau.common.settings.topic import TopicSettings

_NAME_BYTES_MAX = 255

logger = logging.getLogger("moldau.log.unopened")

Key = tuple[str, int]
"""Topic and partition."""


def moved_name(
    source: random.Random, directory: LogDirectory, topic: str, partition: int, suffix: str
) -> str:
    """A path in the directory that no partition has, for a folder that is deleted (`-delete`) or set aside
    (`-stray`); topics with long names lose their end.
    """
    ending = f"-{partition}.{source.getrandbits(128):032x}{suffix}"
    return f"{directory.path}/{topic[: _NAME_BYTES_MAX - len(ending)]}{ending}"


class UnopenedLogs:
    """Logs without a `Log`, by topic and partition."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        source: random.Random,
        report: Callable[[LogDirectory, OSError], None],
    ) -> None:
        """`report` is called with errors of a directory's disk."""
        self._files = files
        self._clock = clock
        self._random = source
        self._report = report
        self._entries: dict[Key, Unopened] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._entries))

    def __getitem__(self, key: Key) -> Unopened:
        return self._entries[key]

    def directories(self) -> set[LogDirectory]:
        """Those that hold such logs: they are not marked clean."""
        return {each.job.directory for each in self._entries.values()}

    def add(self, unopened: Unopened) -> None:
        """This log cannot be opened; its lines in the checkpoints are kept."""
        job = unopened.job
        key = (job.topic, job.partition)
        self._entries[key] = unopened
        for name, offset in (
            (RECOVERY_POINT_NAME, job.saved.recovery_point),
            (LOG_START_NAME, job.saved.log_start_offset),
            (CLEANER_OFFSETS_NAME, job.saved.cleaned_offset),
            (HIGH_WATERMARK_NAME, job.saved.high_watermark),
        ):
            if offset and offset < 1 << 62:
                job.directory.keep_for(key, name, offset)

    def open_again(self, key: Key, topic_id: bytes, settings: TopicSettings) -> Loaded | Log | None:
        """Once more, where that may help: what was opened (and is here no longer); else a log that is
        offline; None when it was another topic's and has been set aside.

        OSError when it may still be possible later: the disk is full, or there are too few descriptors.
        """
        unopened = self._entries[key]
        if unopened.topic_id not in (None, topic_id):
            self.move(key, STRAY_SUFFIX)
            return None
        if unopened.passing:
            again = open_job(unopened.job, settings, self._clock.now_ms(), self._random.getrandbits(32))
            if isinstance(again, Loaded):
                del self._entries[key]
                unopened.job.directory.keep_no_more(key)
                return again
            if again is not None and again.passing:
                raise OSError(errno.ENOSPC, unopened.cause, unopened.job.path)
        return offline_log(self._files, *key, topic_id, settings, unopened.cause)

    def move(self, key: Key, suffix: str) -> str | None:
        """Rename the log's folder; its new path, or None when the disk refused, which is reported."""
        unopened = self._entries.pop(key)
        directory = unopened.job.directory
        directory.keep_no_more(key)
        target = moved_name(self._random, directory, *key, suffix)
        try:
            self._files.rename(unopened.job.path, target)
        except OSError as error:
            self._report(directory, error)
            return None
        return target

    def set_aside_unless(self, exists: Callable[[str, int], bool]) -> None:
        """Set aside those that belong to no partition of the metadata."""
        for key in self:
            if not exists(*key):
                path = self.move(key, STRAY_SUFFIX)
                logger.warning(
                    "%s-%d belongs to no topic of this cluster: set aside as %s; remove it if it may go",
                    *key,
                    path,
                )
