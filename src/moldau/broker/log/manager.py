"""All logs of a broker: found by topic and partition, created in the emptiest directory, deleted in the
background.

Runs on the event loop's thread, except `load`, which is called before clients are served. Slow work (fsync,
removing files, writing checkpoints) goes to a `Background`.

When a disk is full, produce requests to its logs are refused with a retriable error while everything else
goes on; the next append after room has been made succeeds. When a disk fails, its directory goes offline with
all its logs, and `on_offline` is called. A log that cannot be opened is offline alone; its files and its
lines in the checkpoints stay, and its directory is not marked clean, so that the next start looks again.

Not here: periodic work (housekeeping.py), opening (recovery/loading.py), up to which offset anyone may read
(replication/).
"""

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.log.files.checkpoints import (
    ABORTED_TRANSACTIONS_NAME,
    PARTITION_METADATA_NAME,
    read_topic_id,
    write_topic_id,
)
from moldau.broker.log.files.descriptors import DEFAULT_LIMIT, DescriptorLimit
from moldau.broker.log.files.directory import (
    HIGH_WATERMARK_NAME,
    RECOVERY_POINT_NAME,
    LogDirectory,
)
from moldau.broker.log.files.directory_checkpoints import DirectoryCheckpoints
from moldau.broker.log.files.directory_moves import (
    DirectoryMoves,
    Interrupted,
    finish_interrupted,
    moved_copy,
)
from moldau.broker.log.files.log_directories import LogDirectories
from moldau.broker.log.log import Log
from moldau.broker.log.recovery.loading import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    Job,
    Loaded,
    RecoveryProgress,
    Unopened,
    load_directories,
)
from moldau.broker.log.recovery.missing_logs import MissingLogs
from moldau.broker.log.recovery.offline import offline_log
from moldau.broker.log.recovery.recovery import Saved, open_log
from moldau.broker.log.recovery.unopened import UnopenedLogs, moved_name
from moldau.broker.log.upkeep.background import Background, InlineBackground
from moldau.broker.log.upkeep.creation import create_log
from moldau.broker.log.upkeep.flushing import FsyncJob
from moldau.broker.log.upkeep.flushing_many import flush_many
from moldau.broker.log.upkeep.removal import Removal
from moldau.broker.log.upkeep.syncing import Syncing
from moldau.common.core.clock import Clock
from moldau.common.core.files import Files, OsFiles
from moldau.common.core.ids import random_uuid, uuid_to_text
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
        self.recovery = RecoveryProgress()
        self.on_offline: Callable[[LogDirectory, list[Log]], None] = lambda directory, logs: None
        """Called once for each directory that goes offline, with its logs."""
        self.files = self._files = files or OsFiles()
        self._random = source or random.Random(0)
        self._descriptors = DescriptorLimit(descriptor_limit)
        self.directories = LogDirectories(self._files, paths or settings.data_directories)
        self._logs: dict[tuple[str, int], Log] = {}
        self._homes: dict[tuple[str, int], LogDirectory] = {}
        self.syncing = Syncing(clock, timers, self.background, self.storage_failed)
        self.compaction: CompactionReport | None = None
        """Compaction's report, once the cleaner runs."""
        self.being_cleaned: set[Log] = set()
        """Logs that are being compacted: retention leaves them alone meanwhile."""
        self.checkpoints = DirectoryCheckpoints(
            self._files,
            self.background,
            self.directories,
            self._logs,
            self._homes,
            self.being_cleaned,
            self.report,
        )
        self.on_removed: Callable[[Log], None] = lambda log: None
        """Called with each log that is removed, before its files are."""
        self._removal = Removal(
            self._files, clock, timers, self.background, self.checkpoints.write_without_deleted
        )
        self.unopened = UnopenedLogs(self._files, clock, self._random, self.report)
        """Logs that could not be opened, and why."""
        self.moves = DirectoryMoves(self, self._files, self._random)
        """Logs on their way to another directory."""
        self._interrupted: list[Interrupted] = []
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        """Where partitions are to be made that are not here yet."""
        self._found: set[Log] = set()
        """Until the start is over: the logs that were opened by it."""
        self.missing = MissingLogs()
        """Logs that the start did not find, or not whole."""

    # -- starting and stopping ---------------------------------------------------------------------

    def load(
        self,
        cluster_id: str,
        node_id: int,
        topic_settings: Callable[[str], TopicSettings],
        sole_copy: Callable[[str, int], bool] = lambda topic, partition: True,
    ) -> None:
        """Take the directories and open every partition in them; may take long after a crash. `sole_copy`:
        whether no other replica has every committed record of a partition.

        DirectoryUnusable when a directory is another broker's; NoUsableDirectory when none is left.
        """
        for directory in self.directories:
            try:
                directory.claim(cluster_id, node_id, random_uuid(self._random))
            except OSError as error:
                directory.report(error)
        usable = self.directories.usable()
        self._interrupted = finish_interrupted(self._files, usable)
        opened = load_directories(
            usable,
            topic_settings,
            self.recovery,
            threads=self.settings.num_recovery_threads_per_data_dir,
            now_ms=self.clock.now_ms(),
            seed=self._random.getrandbits(32),
            pool=self._pool,
            sole_copy=sole_copy,
        )
        self.missing = MissingLogs(
            self.directories.offline,
            opened.saved,
            frozenset(
                (o.recovered.log.topic, o.recovered.log.partition) for o in opened.loaded if o.is_short
            ),
            stopped_clean=all(directory.was_clean for directory in self.directories),
        )
        for each in opened.unopened:
            self.unopened.add(each)
        self._adopt_loaded(opened.loaded)
        lossy = {each.directory for each in opened.loaded if each.recovered.offsets_lost}
        watermarks: dict[tuple[str, int], int] = {}
        for directory in usable:
            try:
                if directory in opened.deleted:
                    self.checkpoints.forget_lines(directory, opened.deleted[directory])
                watermarks.update(directory.read_checkpoint(HIGH_WATERMARK_NAME))
                self.checkpoints.take_up_cleaned_offsets(directory)
                if directory in lossy:
                    # Else the next recovery would take the gap for a loss, and what comes after it for lost.
                    self.checkpoints.write_now(directory)
            except OSError as error:
                self.report(directory, error)
        self.checkpoints.high_watermarks = watermarks
        self._force_recovered()
        cut = {each.directory for each in opened.loaded if each.recovered.records_cut}
        self.directories.begin_run(usable, cut, self.report)
        if (
            not self.missing.unread_directories
        ):  # else one may belong to a move that the absent directory has to finish
            for path in opened.leftovers:
                self._removal.folder(path, 0)

    def _adopt_loaded(self, loaded: Sequence[Loaded]) -> None:
        """Register the logs; one that is in two directories stays offline, since which copy is newer cannot
        be told.
        """
        places: dict[tuple[str, int], list[Loaded]] = {}
        for each in loaded:
            log = each.recovered.log
            places.setdefault((log.topic, log.partition), []).append(each)
        for key, found in places.items():
            if len(found) == 1 and key not in self.unopened:
                self._adopt(found[0].recovered.log, found[0].directory)
                self._found.add(found[0].recovered.log)
                continue
            paths = [each.recovered.log.directory for each in found]
            moved = None if key in self.unopened else moved_copy(self._files, paths)
            if moved is not None:
                self._adopt_moved(key, found, moved)
                continue
            if key in self.unopened:
                paths.append(self.unopened[key].job.path)
            cause = f"it is in several log directories ({', '.join(paths)}); move all but one away"
            logger.error("%s-%d cannot be opened: %s, then restart the broker", *key, cause)
            for each in found:
                each.recovered.log.close(clean=False)
                job = Job(each.directory, each.recovered.log.directory, *key, Saved())
                self.unopened.add(Unopened(job, cause, False, each.recovered.log.topic_id))

    def _adopt_moved(self, key: tuple[str, int], found: Sequence[Loaded], moved: str) -> None:
        """A power cut has left the log in both directories of a move; the one at `moved` is newer."""
        for each in found:
            log = each.recovered.log
            if log.directory == moved:
                self._adopt(log, each.directory)
                self._found.add(log)
                continue
            log.close(clean=False)
            target = moved_name(self._random, each.directory, *key, DELETE_SUFFIX)
            self._files.rename(log.directory, target)
            self._removal.folder(target, 0, each.directory)

    def _begin_interrupted_moves(self) -> None:
        interrupted, self._interrupted = self._interrupted, []
        for key, directory, path in interrupted:
            log = self.get(*key)
            try:
                wanted = log is not None and log.topic_id == read_topic_id(self._files, path)
                target = moved_name(self._random, directory, *key, DELETE_SUFFIX)
                self._files.rename(path, target)
                self._removal.folder(target, 0)
                if log is not None and wanted and not log.offline:
                    self.moves.ask(log, directory)
            except OSError as error:
                self.report(directory, error)

    def start_is_over(self) -> None:
        """All partitions in the metadata have their logs: logs created from now on are new."""
        self._begin_interrupted_moves()
        self.missing.start_is_over()
        self._found.clear()

    def _force_recovered(self) -> None:
        """With durability `group` or flush.messages=1: fsync the recovered logs, since a killed broker's last
        writes may be in the page cache only, and count as committed from now on.
        """
        group = self.settings.moldau_durability == "group"
        due = [
            log
            for log in self._logs.values()
            if (group or log.settings.flush_messages == 1) and log.flushed_end_offset < log.log_end_offset
        ]
        flush_many(due, Log.fsync_job, self.storage_failed, self._pool)

    def _adopt(self, log: Log, directory: LogDirectory) -> None:
        key = (log.topic, log.partition)
        log.share_descriptors(self._descriptors)
        log.on_error = self._log_failed
        log.on_roll = self.syncing.rolled
        self._logs[key] = log
        self._homes[key] = directory
        directory.log_count += 1

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Close every log; after a clean close the next start recovers nothing. `broker_epoch` goes into the
        clean-shutdown marker.
        """
        self.moves.stop()
        failed: set[LogDirectory] = {directory for directory in self.directories if directory.offline}
        if clean:
            failed |= self._bring_to_disk()
        for log in self._logs.values():
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
                    self.report(directory, error)
            directory.release()
        self._logs.clear()
        self._homes.clear()

    def _bring_to_disk(self) -> set[LogDirectory]:
        """Prepare every log for its end; returns the directories where that failed."""
        failed: set[LogDirectory] = set()

        def prepare(log: Log) -> FsyncJob | None:
            return None if self.directory_of(log).offline else log.prepare_close()

        def report(log: Log, error: OSError) -> None:
            self.report(self.directory_of(log), error)
            failed.add(self.directory_of(log))

        flush_many(list(self._logs.values()), prepare, report, self._pool)
        return failed

    # -- finding -----------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> Log | None:
        """The log of this partition, if it is here."""
        return self._logs.get((topic, partition))

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def directory_of(self, log: Log) -> LogDirectory:
        """The log directory that holds this log."""
        return self._homes[log.topic, log.partition]

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
            logs = tuple(log for key, log in self._logs.items() if self._homes[key] is directory)
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
                self._adopt(found.recovered.log, found.directory)
                if found.recovered.offsets_lost:
                    # As in `load`, so that the next recovery does not take the gap for a loss.
                    self.checkpoints.save_recovery_points(found.directory, lambda worked: None)
                return self.create(topic, partition, topic_id, settings, sole_copy=sole_copy)
        cause = self.missing.why_not_made(key, has_files=has_files)
        if cause is not None:
            return offline_log(self._files, topic, partition, topic_id, settings, cause)
        if not has_files:
            start_offset = self.missing.end_offset(key, sole_copy=sole_copy)
        if not sole_copy:
            start_offset = 0
        start_offset = self.missing.begins_at(topic_id, partition, start_offset)
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
                    descriptors=self._descriptors,
                    now_ms=self.clock.now_ms(),
                    source=self._random,
                    start_offset=start_offset,
                )
                self.missing.made(topic_id, partition)
                self._adopt(log, directory)
                return log
            write_topic_id(self._files, path, topic_id)
            log = open_log(
                self._files,
                path,
                topic,
                partition,
                settings,
                descriptors=self._descriptors,
                start_offset=start_offset,
                now_ms=self.clock.now_ms(),
                source=self._random,
            ).log
        except OSError as error:
            self.report(directory, error)
            raise
        self.missing.made(topic_id, partition)
        self._adopt(log, directory)
        return log

    def _name_topic(self, log: Log, topic_id: bytes) -> None:
        """The log's folder has no topic id: write the metadata's."""
        try:
            write_topic_id(self._files, log.directory, topic_id)
        except OSError as error:
            self.storage_failed(log, error)
            raise
        log.topic_id = topic_id

    def _set_stranger_aside(self, log: Log, topic_id: bytes) -> int:
        """Set aside a log whose folder has another topic id; returns the start offset of the new log."""
        end_offset = log.log_end_offset if log in self._found else 0
        name = f"{log.topic}-{log.partition}"
        told = uuid_to_text(log.topic_id or bytes(16))
        path = self.set_aside(log)
        logger.error(
            "%s: its %s names the topic id %s, and the metadata %s: its files are set aside as %s, and it "
            "goes on "
            "empty at offset %d. If the id is damaged, stop the broker, correct it there and rename the "
            "folder "
            "back; else remove it",
            name,
            PARTITION_METADATA_NAME,
            told,
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

    def put_in_place(
        self, current: Log, future: Log, directory: LogDirectory, cleaned_offset: int | None
    ) -> None:
        """A move is complete: `future` is the partition's log from now on, in `directory`."""
        key = (current.topic, current.partition)
        home = self._homes[key]
        self.on_removed(current)
        home.log_count -= 1
        self._adopt(future, directory)
        future.reconfigure(current.settings)
        if self.checkpoints.cleaned_offsets.pop(key, None) is not None:
            # Compaction's work on what had been copied before it is done again.
            self.checkpoints.cleaned_offsets[key] = cleaned_offset or 0
            self.checkpoints.save_cleaned_offsets(directory)
        self.checkpoints.save_recovery_points(directory, lambda worked: None)

    def remove_folder_later(self, path: str, directory: LogDirectory) -> None:
        """Remove this folder, whose partition is gone from the directory."""
        self._removal.folder(path, self.settings.log_segment_delete_delay_ms, directory)

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
        directory = self.directory_of(log)
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
        del self._logs[key]
        directory = self._homes.pop(key)
        directory.log_count -= 1
        log.go_offline()
        self.on_removed(log)
        if self.checkpoints.cleaned_offsets.pop(key, None) is not None:
            # A topic of this name may be made again, and none of it will have been cleaned.
            self.checkpoints.save_cleaned_offsets(directory)
        target = moved_name(self._random, directory, log.topic, log.partition, kind)
        try:
            log.close(clean=False)
            self._files.rename(log.directory, target)
            log.moved_to(target)
        except OSError as error:
            self.report(directory, error)
            return None
        return target

    def remove_files_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove these files (of segments that retention has taken out) after the delay."""
        self._removal.files(paths, delay_ms)

    # -- trouble -----------------------------------------------------------------------------------

    def _log_failed(self, log: Log, error: OSError) -> None:
        key = (log.topic, log.partition)
        if self._logs.get(key) is log:
            self.report(self._homes[key], error)

    def storage_failed(self, log: Log, error: OSError) -> None:
        """A read or a sync of this log has failed (its writes report by themselves)."""
        self._log_failed(log, error)

    def report(self, directory: LogDirectory, error: OSError) -> None:
        """A disk error of this directory: it may be offline from now on."""
        if not directory.report(error):
            return
        self.directories.remove_marks()
        logs = [log for key, log in self._logs.items() if self._homes[key] is directory]
        for log in logs:
            log.go_offline()
        self.moves.went_offline(directory)
        self.on_offline(directory, logs)
