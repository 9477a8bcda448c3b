"""The start of a broker's logs: claim the directories, open every partition found in them, and say what is
missing.

    load ──> the metadata is known ──> its partitions get their logs (manager.create) ──> is_over

Runs before clients are served, and may take long after a crash. A log that cannot be opened is offline alone
(recovery/unopened.py); its files and its lines in the checkpoints stay. Not here: opening one log
(recovery/loading.py), what a missing one means (recovery/missing_logs.py).
"""

import logging
import random
from collections.abc import Callable, Sequence

from moldau.broker.log.files.checkpoints import read_topic_id
from moldau.broker.log.files.directory import HIGH_WATERMARK_NAME
from moldau.broker.log.files.directory_checkpoints import DirectoryCheckpoints
from moldau.broker.log.files.directory_moves import (
    DirectoryMoves,
    Interrupted,
    finish_interrupted,
    moved_copy,
)
from moldau.broker.log.files.log_directories import LogDirectories
from moldau.broker.log.log import Log
from moldau.broker.log.open_logs import OpenLogs
from moldau.broker.log.recovery.loading import (
    DELETE_SUFFIX,
    Job,
    Loaded,
    RecoveryProgress,
    Unopened,
    load_directories,
)
from moldau.broker.log.recovery.missing_logs import MissingLogs
from moldau.broker.log.recovery.recovery import Saved
from moldau.broker.log.recovery.unopened import UnopenedLogs, moved_name
from moldau.broker.log.upkeep.flushing_many import flush_many
from moldau.broker.log.upkeep.removal import Removal
from moldau.common.core.clock import Clock
from moldau.common.core.files import Files
from moldau.common.core.ids import random_uuid
from moldau.common.core.workers import Pool
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings

logger = logging.getLogger("moldau.log.manager")


class Startup:
    """From the claim of the directories until all partitions in the metadata have their logs."""

    def __init__(
        self,
        settings: Callable[[], BrokerSettings],
        directories: LogDirectories,
        logs: OpenLogs,
        checkpoints: DirectoryCheckpoints,
        unopened: UnopenedLogs,
        moves: DirectoryMoves,
        removal: Removal,
        *,
        files: Files,
        clock: Clock,
        source: random.Random,
        pool: Pool,
    ) -> None:
        self._settings = settings
        self._directories = directories
        self._logs = logs
        self._checkpoints = checkpoints
        self._unopened = unopened
        self._moves = moves
        self._removal = removal
        self._files = files
        self._clock = clock
        self._random = source
        self._pool = pool
        self.progress = RecoveryProgress()
        self.found: set[Log] = set()
        """Until the start is over: the logs that were opened by it."""
        self.missing = MissingLogs()
        """Logs that the start did not find, or not whole."""
        self._interrupted: list[Interrupted] = []

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
        for directory in self._directories:
            try:
                directory.claim(cluster_id, node_id, random_uuid(self._random))
            except OSError as error:
                directory.report(error)
        usable = self._directories.usable()
        self._interrupted = finish_interrupted(self._files, usable)
        opened = load_directories(
            usable,
            topic_settings,
            self.progress,
            threads=self._settings().num_recovery_threads_per_data_dir,
            now_ms=self._clock.now_ms(),
            seed=self._random.getrandbits(32),
            pool=self._pool,
            sole_copy=sole_copy,
        )
        self.missing = MissingLogs(
            self._directories.offline,
            opened.saved,
            frozenset(
                (o.recovered.log.topic, o.recovered.log.partition) for o in opened.loaded if o.is_short
            ),
            stopped_clean=all(directory.was_clean for directory in self._directories),
        )
        for each in opened.unopened:
            self._unopened.add(each)
        self._adopt_loaded(opened.loaded)
        lossy = {each.directory for each in opened.loaded if each.recovered.offsets_lost}
        watermarks: dict[tuple[str, int], int] = {}
        for directory in usable:
            try:
                if directory in opened.deleted:
                    self._checkpoints.forget_lines(directory, opened.deleted[directory])
                watermarks.update(directory.read_checkpoint(HIGH_WATERMARK_NAME))
                self._checkpoints.take_up_cleaned_offsets(directory)
                if directory in lossy:
                    # Else the next recovery would take the gap for a loss, and what comes after it for lost.
                    self._checkpoints.write_now(directory)
            except OSError as error:
                self._logs.report(directory, error)
        self._checkpoints.high_watermarks = watermarks
        self._force_recovered()
        cut = {each.directory for each in opened.loaded if each.recovered.records_cut}
        self._directories.begin_run(usable, cut, self._logs.report)
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
            if len(found) == 1 and key not in self._unopened:
                self._logs.adopt(found[0].recovered.log, found[0].directory)
                self.found.add(found[0].recovered.log)
                continue
            paths = [each.recovered.log.directory for each in found]
            moved = None if key in self._unopened else moved_copy(self._files, paths)
            if moved is not None:
                self._adopt_moved(key, found, moved)
                continue
            if key in self._unopened:
                paths.append(self._unopened[key].job.path)
            cause = f"it is in several log directories ({', '.join(paths)}); move all but one away"
            logger.error("%s-%d cannot be opened: %s, then restart the broker", *key, cause)
            for each in found:
                each.recovered.log.close(clean=False)
                job = Job(each.directory, each.recovered.log.directory, *key, Saved())
                self._unopened.add(Unopened(job, cause, False, each.recovered.log.topic_id))

    def _adopt_moved(self, key: tuple[str, int], found: Sequence[Loaded], moved: str) -> None:
        """A power cut has left the log in both directories of a move; the one at `moved` is newer."""
        for each in found:
            log = each.recovered.log
            if log.directory == moved:
                self._logs.adopt(log, each.directory)
                self.found.add(log)
                continue
            log.close(clean=False)
            target = moved_name(self._random, each.directory, *key, DELETE_SUFFIX)
            self._files.rename(log.directory, target)
            self._removal.folder(target, 0, each.directory)

    def _begin_interrupted_moves(self) -> None:
        interrupted, self._interrupted = self._interrupted, []
        for key, directory, path in interrupted:
            log = self._logs.get(*key)
            try:
                wanted = log is not None and log.topic_id == read_topic_id(self._files, path)
                target = moved_name(self._random, directory, *key, DELETE_SUFFIX)
                self._files.rename(path, target)
                self._removal.folder(target, 0)
                if log is not None and wanted and not log.offline:
                    self._moves.ask(log, directory)
            except OSError as error:
                self._logs.report(directory, error)

    def is_over(self) -> None:
        """All partitions in the metadata have their logs: logs created from now on are new."""
        self._begin_interrupted_moves()
        self.missing.start_is_over()
        self.found.clear()

    def _force_recovered(self) -> None:
        """With durability `group` or flush.messages=1: fsync the recovered logs, since a killed broker's last
        writes may be in the page cache only, and count as committed from now on.
        """
        group = self._settings().moldau_durability == "group"
        due = [
            log
            for log in self._logs
            if (group or log.settings.flush_messages == 1) and log.flushed_end_offset < log.log_end_offset
        ]
        flush_many(due, lambda log: log.flusher.job(), self._logs.storage_failed, self._pool)
