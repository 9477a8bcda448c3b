"""All logs of a broker: found by topic and partition, created in the emptiest directory, deleted in the
background.

Runs on the event loop's thread. Slow work (fsync, removing files, writing checkpoints) goes to a
`Background`.

When a disk is full, produce requests to its logs are refused with a retriable error while everything else
goes on; the next append after room has been made succeeds. When a disk fails, its directory goes offline with
all its logs (open_logs.py). A log that cannot be opened is offline alone; its directory is not marked clean,
so that the next start looks again.

Not here: the start (startup.py), periodic work (housekeeping.py), up to which offset anyone may read
(replication/).
"""

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.log.files.checkpoints import (
    ABORTED_TRANSACTIONS_NAME,
    PARTITION_METADATA_NAME,
    write_topic_id,
)
from moldau.broker.log.files.descriptors import DEFAULT_LIMIT, DescriptorLimit
from moldau.broker.log.files.directory import (
    RECOVERY_POINT_NAME,
    LogDirectory,
)
from moldau.broker.log.files.directory_checkpoints import DirectoryCheckpoints
from moldau.broker.log.files.directory_moves import (
    DirectoryMoves,
)
from moldau.broker.log.files.log_directories import LogDirectories
from moldau.broker.log.log import Log
from moldau.broker.log.open_logs import OpenLogs
from moldau.broker.log.recovery.loading import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
)
from moldau.broker.log.recovery.offline import offline_log
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.recovery.unopened import UnopenedLogs, moved_name
from moldau.broker.log.startup import Startup
from moldau.broker.log.upkeep.background import Background, InlineBackground
from moldau.broker.log.upkeep.creation import create_log
from moldau.broker.log.upkeep.flushing import FsyncJob
from moldau.broker.log.upkeep.flushing_many import flush_many
from moldau.broker.log.upkeep.removal import Removal
from moldau.broker.log.upkeep.syncing import Syncing
from moldau.common.core.clock import Clock
from moldau.common.core.files import Files, OsFiles
from moldau.common.core.ids import uuid_to_text
from moldau.common.core.timers import Timers
from moldau.common.core.workers import Pool, inline_pool
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings

if TYPE_CHECKING:
    from moldau.broker.log.compaction.report import CompactionReport

logger = logging.getLogger("moldau.log.manager")


_PREFERRED_MAX = 10_000


class DirectoryDescription(NamedTuple):
    """A log directory as DescribeLogDirs shows it; sizes in bytes, -1 when unknown. `futures`: the logs that
    are moving there, and how many offsets they are behind.
    """

    path: str
    offline: bool
    total_bytes: int
    usable_bytes: int
    logs: tuple[Log, ...]
    futures: tuple[tuple[Log, int], ...] = ()


class LogManager:
    """The broker's logs."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock,
        timers: Timers,
        files: Files | None = None,
        background: Background | None = None,
        pool: Pool = inline_pool,
        source: random.Random | None = None,
        descriptor_limit: int = DEFAULT_LIMIT,
        paths: Sequence[str] | None = None,
    ) -> None:
        """`paths` overrides the settings' log directories; they must be absolute."""
        self.settings = settings
        self.clock = clock
        self.timers = timers
        self.background = background or InlineBackground()
        self._pool = pool
        self.files = self._files = files or OsFiles()
        self._random = source or random.Random(0)
        self.directories = LogDirectories(self._files, paths or settings.data_directories)
        self.open_logs = logs = OpenLogs(self.directories, DescriptorLimit(descriptor_limit))
        self.syncing = Syncing(clock, timers, self.background, logs.storage_failed)
        logs.on_roll = self.syncing.rolled
        self.compaction: CompactionReport | None = None
        """Compaction's report, once the cleaner runs."""
        self.checkpoints = DirectoryCheckpoints(
            self._files,
            self.background,
            self.directories,
            logs,
        )
        self._removal = Removal(
            self._files, clock, timers, self.background, self.checkpoints.write_without_deleted
        )
        self.unopened = UnopenedLogs(self._files, clock, self._random, logs.report)
        """Logs that could not be opened, and why."""
        self.moves = DirectoryMoves(
            logs,
            self.checkpoints,
            self._removal,
            files=self._files,
            clock=clock,
            timers=timers,
            background=self.background,
            source=self._random,
            delete_delay_ms=lambda: self.settings.log_segment_delete_delay_ms,
        )
        """Logs on their way to another directory."""
        logs.on_offline.append(self.moves.went_offline)
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        """Where partitions are to be made that are not here yet."""
        self.startup = Startup(
            lambda: self.settings,
            self.directories,
            logs,
            self.checkpoints,
            self.unopened,
            self.moves,
            self._removal,
            files=self._files,
            clock=clock,
            source=self._random,
            pool=pool,
        )

    # -- the end ---------------------------------------------------------------------

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Close every log; after a clean close the next start recovers nothing. `broker_epoch` goes into the
        clean-shutdown marker.
        """
        self.moves.stop()
        failed: set[LogDirectory] = {directory for directory in self.directories if directory.offline}
        if clean:
            failed |= self._bring_to_disk()
        for log in self.open_logs:
            log.close(clean=False)
        unopened = self.unopened.directories()
        for directory in self.directories:
            if clean and directory not in failed and not directory.full:
                try:
                    self.checkpoints.write_now(directory)
                    sums = self.checkpoints.aborts_checksums(directory, whole=True)
                    if sums is not None:
                        sums[RECOVERY_POINT_NAME, 0] = directory.checkpoint_checksum(RECOVERY_POINT_NAME)
                        directory.write_checkpoint(ABORTED_TRANSACTIONS_NAME, sums)
                    if directory not in unopened:
                        directory.set_clean_mark(broker_epoch)
                except OSError as error:
                    self.open_logs.report(directory, error)
            directory.release()
        self.open_logs.clear()

    def _bring_to_disk(self) -> set[LogDirectory]:
        """Prepare every log for its end; returns the directories where that failed."""
        failed: set[LogDirectory] = set()

        def prepare(log: Log) -> FsyncJob | None:
            return None if self.open_logs.directory_of(log).offline else log.prepare_close()

        def report(log: Log, error: OSError) -> None:
            self.open_logs.report(self.open_logs.directory_of(log), error)
            failed.add(self.open_logs.directory_of(log))

        flush_many(list(self.open_logs), prepare, report, self._pool)
        return failed

    # -- finding -----------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> Log | None:
        """The log of this partition, if it is here."""
        return self.open_logs.get(topic, partition)

    def __len__(self) -> int:
        return len(self.open_logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(self.open_logs)

    @property
    def offline_dirs(self) -> list[str]:
        """The directories that are offline after a disk error."""
        return self.directories.offline

    @property
    def full_dirs(self) -> list[str]:
        """The directories whose disk is full."""
        return self.directories.full

    def describe(self) -> list[DirectoryDescription]:
        """Every directory with its logs and its free space."""
        descriptions: list[DirectoryDescription] = []
        for directory in self.directories:
            logs = tuple(self.open_logs.within(directory))
            futures = tuple((log, lag) for home, log, lag in self.moves.futures() if home is directory)
            total, usable = (-1, -1) if directory.offline else directory.free_bytes()
            descriptions.append(
                DirectoryDescription(directory.path, directory.offline, total, usable, logs, futures)
            )
        return descriptions

    # -- creating and deleting ---------------------------------------------------------------------

    def create(
        self, topic: str, partition: int, topic_id: bytes, settings: TopicSettings, *, sole_copy: bool = True
    ) -> Log:
        """The partition's log: the existing one, or a new one in the usable directory with the fewest
        partitions.

        An existing log of another topic id is set aside as `-stray`, and a new one made: only a deletion in
        the metadata removes files. For a log that could not be opened at the start, an offline stand-in is
        returned. OSError when the disk refuses; NoUsableDirectory when all are offline. `sole_copy`: no other
        broker has a replica; then a lost log goes on at its former end offset, else it begins at 0 and gets
        everything from the leader.
        """
        key = (topic, partition)
        start_offset = 0
        existing = self.get(topic, partition)
        has_files = existing is not None or key in self.unopened
        if existing is not None:
            if existing.topic_id in (None, topic_id):
                if existing.topic_id is None:
                    self._name_topic(existing, topic_id)
                return existing
            start_offset = self._set_stranger_aside(existing, topic_id)
        elif key in self.unopened:
            found = self.unopened.open_again(key, topic_id, settings)
            if isinstance(found, Log):
                return found
            if found is not None:
                self.open_logs.adopt(found.recovered.log, found.directory)
                if found.recovered.offsets_lost:
                    # As in `load`, so that the next recovery does not take the gap for a loss.
                    self.checkpoints.save_recovery_points(found.directory, lambda worked: None)
                return self.create(topic, partition, topic_id, settings, sole_copy=sole_copy)
        cause = self.startup.missing.why_not_made(key, has_files=has_files)
        if cause is not None:
            return offline_log(self._files, topic, partition, topic_id, settings, cause)
        if not has_files:
            start_offset = self.startup.missing.end_offset(key, sole_copy=sole_copy)
        if not sole_copy:
            start_offset = 0
        start_offset = self.startup.missing.begins_at(topic_id, partition, start_offset)
        directory = self._preferred.pop(key, None)
        if directory is None or directory.offline:
            directory = self.directories.emptiest()
        path = f"{directory.path}/{topic}-{partition}"
        try:
            if not self._files.exists(path):
                log = create_log(
                    self._files,
                    path,
                    topic,
                    partition,
                    topic_id,
                    settings,
                    descriptors=self.open_logs.descriptors,
                    now_ms=self.clock.now_ms(),
                    source=self._random,
                    start_offset=start_offset,
                )
                self.startup.missing.made(topic_id, partition)
                self.open_logs.adopt(log, directory)
                return log
            write_topic_id(self._files, path, topic_id)
            log = open_log(
                self._files,
                path,
                topic,
                partition,
                settings,
                descriptors=self.open_logs.descriptors,
                start_offset=start_offset,
                now_ms=self.clock.now_ms(),
                source=self._random,
            ).log
        except OSError as error:
            self.open_logs.report(directory, error)
            raise
        self.startup.missing.made(topic_id, partition)
        self.open_logs.adopt(log, directory)
        return log

    def _name_topic(self, log: Log, topic_id: bytes) -> None:
        """The log's folder has no topic id: write the metadata's."""
        try:
            write_topic_id(self._files, log.directory, topic_id)
        except OSError as error:
            self.open_logs.storage_failed(log, error)
            raise
        log.topic_id = topic_id

    def _set_stranger_aside(self, log: Log, topic_id: bytes) -> int:
        """Set aside a log whose folder has another topic id; returns the start offset of the new log."""
        end_offset = log.log_end_offset if log in self.startup.found else 0
        name = f"{log.topic}-{log.partition}"
        former_id = uuid_to_text(log.topic_id or bytes(16))
        path = self.set_aside(log)
        logger.error(
            "%s: its %s names the topic id %s, and the metadata %s: its files are set aside as %s, and it "
            "goes on "
            "empty at offset %d. If the id is damaged, stop the broker, correct it there and rename the "
            "folder "
            "back; else remove it",
            name,
            PARTITION_METADATA_NAME,
            former_id,
            uuid_to_text(topic_id),
            path,
            end_offset,
        )
        return end_offset

    def set_unopened_aside(self, exists: Callable[[str, int], bool]) -> None:
        """Set aside the logs that could not be opened and belong to no partition in the metadata."""
        self.unopened.set_aside_unless(exists)

    def prefer(self, topic: str, partition: int, directory: LogDirectory) -> None:
        """If this partition is made here, make it in this directory (KIP-113). Until the broker stops."""
        self._preferred.pop((topic, partition), None)
        self._preferred[topic, partition] = directory
        if len(self._preferred) > _PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def delete_async(self, topic: str, partition: int) -> bool:
        """Remove the log at once, and its files after file.delete.delay.ms; False when there is none."""
        log = self.get(topic, partition)
        if log is None:
            if (topic, partition) not in self.unopened:
                return False
            directory = self.unopened[topic, partition].job.directory
            path = self.unopened.move((topic, partition), DELETE_SUFFIX)
            if path is not None:
                self._removal.folder(path, self.settings.log_segment_delete_delay_ms, directory)
            return True
        directory = self.open_logs.directory_of(log)
        target = self._take_out(log, DELETE_SUFFIX)
        if target is not None:
            self._removal.folder(target, log.settings.file_delete_delay_ms, directory)
        return True

    def set_aside(self, log: Log) -> str | None:
        """Rename the folder of a log without a partition to `-stray`; returns the new path, or None when the
        disk refused (which is reported).
        """
        return self._take_out(log, STRAY_SUFFIX)

    def _take_out(self, log: Log, kind: str) -> str | None:
        """Close the log and rename its directory; the new path, or None when the disk refused."""
        key = (log.topic, log.partition)
        self.moves.cancel(key)
        directory = self.open_logs.remove(log)
        if self.checkpoints.cleaned_offsets.pop(key, None) is not None:
            # A topic of this name may be made again, and none of it will have been cleaned.
            self.checkpoints.save_cleaned_offsets(directory)
        target = moved_name(self._random, directory, log.topic, log.partition, kind)
        try:
            log.close(clean=False)
            self._files.rename(log.directory, target)
            log.moved_to(target)
        except OSError as error:
            self.open_logs.report(directory, error)
            return None
        return target

    def remove_files_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove these files (of segments that retention has taken out) after the delay."""
        self._removal.files(paths, delay_ms)
