"""The checkpoint files of all log directories: read at the start, rewritten in the background.

    recovery-point-offset-checkpoint    up to which offset a log is known to be on the disk
    log-start-offset-checkpoint         where it begins, unless that is a segment's beginning
    replication-offset-checkpoint       its high watermark, as last saved
    cleaner-offset-checkpoint           up to which offset compaction has come
    aborted-transactions-checkpoint     checksums of its indexes of aborted transactions

Each file covers all logs of one directory and is replaced as a whole, in the background: one write at a time,
and of several that wait only the last.

Not here: the files' format (checkpoints.py), when they are due (housekeeping.py, replication/).
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from moldau.broker.log.files.checkpoints import ABORTED_TRANSACTIONS_NAME, CLEANER_OFFSETS_NAME
from moldau.broker.log.files.directory import (
    HIGH_WATERMARK_NAME,
    LOG_START_NAME,
    RECOVERY_POINT_NAME,
    LogDirectory,
)
from moldau.broker.log.log import Log
from moldau.broker.log.open_logs import OpenLogs
from moldau.broker.log.state.transaction_index import DamagedIndex
from moldau.broker.log.upkeep.background import Background
from moldau.common.core.files import Files


class DirectoryCheckpoints:
    """The checkpoint files of all log directories of one broker."""

    def __init__(
        self,
        files: Files,
        background: Background,
        directories: Sequence[LogDirectory],
        logs: OpenLogs,
    ) -> None:
        self._files = files
        self._background = background
        self._directories = directories
        self._logs = logs
        self.high_watermarks: Mapping[tuple[str, int], int] = {}
        """As they were written down last, perhaps before the start."""
        self.cleaned_offsets: dict[tuple[str, int], int] = {}
        """Up to where compaction has come in each log (its first dirty offset)."""
        self._starts: dict[LogDirectory, dict[tuple[str, int], int]] = {}
        """The log start offsets as they were written down last, or are about to be."""
        self._writing: dict[
            tuple[LogDirectory, str],
            tuple[Mapping[tuple[str, int], int], list[Callable[[bool], None]]] | None,
        ] = {}
        """Files that are being written, and what is to be written next."""

    def offsets(self, directory: LogDirectory) -> tuple[dict[tuple[str, int], int], ...]:
        """The recovery points, and the log start offsets that are not simply a segment's beginning."""
        points: dict[tuple[str, int], int] = {}
        starts: dict[tuple[str, int], int] = {}
        for key, log in self._logs.by_key.items():
            if self._logs.homes[key] is directory:
                points[key] = log.flusher.recovery_point
                if log.log_start_offset > log.segments[0].base_offset:
                    starts[key] = log.log_start_offset
        self._starts[directory] = dict(starts)
        return points, starts

    def write_now(self, directory: LogDirectory) -> None:
        """Write the recovery points and log start offsets, blocking. OSError: the disk refuses."""
        points, starts = self.offsets(directory)
        directory.write_checkpoint(RECOVERY_POINT_NAME, points)
        directory.write_checkpoint(LOG_START_NAME, starts)

    def aborts_checksums(self, directory: LogDirectory, *, whole: bool) -> dict[tuple[str, int], int] | None:
        """A checksum of each index of aborted transactions, by its log's directory name and its segment's
        base offset, so that the next start notices when one is gone; `whole`: also of segments that still
        grow. None when there is nothing to be written.
        """
        sums: dict[tuple[str, int], int] = {}
        for key, log in self._logs.by_key.items():
            # What compaction is about to replace is not known until it has.
            if self._logs.homes[key] is directory and (whole or log not in self._logs.being_cleaned):
                for segment in log.segments if whole else log.segments[:-1]:
                    index = segment.transaction_index
                    if len(index):
                        # One that cannot be read is left out: the next start finds that, and builds it anew.
                        with contextlib.suppress(DamagedIndex, OSError):
                            sums[f"{log.topic}-{log.partition}", segment.base_offset] = index.checksum()
        if sums or self._files.exists(f"{directory.path}/{ABORTED_TRANSACTIONS_NAME}"):
            return sums
        return None

    def save_high_watermarks(self, high_watermarks: Mapping[tuple[str, int], int]) -> None:
        """Write the high watermarks, each in its log's directory, in the background."""
        self.high_watermarks = high_watermarks
        for directory in self._directories:
            if directory.offline:
                continue
            own = high_watermarks
            if len(self._directories) > 1:
                own = {key: value for key, value in own.items() if self._logs.homes.get(key) is directory}
            self.write_in_background(directory, HIGH_WATERMARK_NAME, own)

    def save_cleaned_offsets(self, directory: LogDirectory) -> None:
        """Write how far compaction has come, in the background."""
        own = {
            key: offset
            for key, offset in self.cleaned_offsets.items()
            if self._logs.homes.get(key) is directory
        }
        self.write_in_background(directory, CLEANER_OFFSETS_NAME, own)

    def note_log_start(self, log: Log) -> LogDirectory | None:
        """This log begins elsewhere now: the directory whose checkpoint must say so; None: its files do."""
        directory = self._logs.homes.get((log.topic, log.partition))
        if directory is None or log.log_start_offset <= log.segments[0].base_offset:
            return None
        if directory not in self._starts:
            self.offsets(directory)
        self._starts[directory][log.topic, log.partition] = log.log_start_offset
        return directory

    def save_log_starts(
        self, directories: Collection[LogDirectory], done: Callable[[Collection[LogDirectory]], None]
    ) -> None:
        """Write down what was noted, in the background; then `done(those that could not be written)`: they
        are full, or offline by then.
        """
        left = len(directories)
        unwritten: list[LogDirectory] = []

        def written(directory: LogDirectory, worked: bool) -> None:
            nonlocal left
            left -= 1
            if not worked:
                unwritten.append(directory)
            if not left:
                done(unwritten)

        for directory in directories:
            homes = self._logs.homes
            starts = {
                key: offset for key, offset in self._starts[directory].items() if homes.get(key) is directory
            }
            self.write_in_background(directory, LOG_START_NAME, starts, partial(written, directory))
        if not directories:
            done(unwritten)

    def save_recovery_points(self, directory: LogDirectory, done: Callable[[bool], None]) -> None:
        """Write the recovery points in the background; then `done(whether that worked)`."""
        points, _ = self.offsets(directory)
        self.write_in_background(directory, RECOVERY_POINT_NAME, points, done)

    def save_before_cleaning(self, log: Log, done: Callable[[bool], None]) -> None:
        """Compaction is about to leave gaps in this log, and to merge its indexes of aborted transactions:
        write first what recovery would otherwise take for losses; then `done(whether that worked)`.
        """
        directory = self._logs.homes[log.topic, log.partition]

        def saved(worked: bool) -> None:
            sums = None
            if worked and any(len(segment.transaction_index) for segment in log.segments):
                sums = self.aborts_checksums(directory, whole=False)
            if sums is None:
                done(worked)
            else:
                self.write_in_background(directory, ABORTED_TRANSACTIONS_NAME, sums, done)

        self.save_recovery_points(directory, saved)

    def write_in_background(
        self,
        directory: LogDirectory,
        name: str,
        offsets: Mapping[tuple[str, int], int],
        done: Callable[[bool], None] = lambda worked: None,
    ) -> None:
        """Replace one of the directory's checkpoint files in the background: one write at a time, of several
        that wait only the last.
        """
        if (directory, name) in self._writing:
            waiting = self._writing[directory, name]
            self._writing[directory, name] = (offsets, [*(waiting[1] if waiting else []), done])
            return
        self._writing[directory, name] = None
        self._write_checkpoint(directory, name, offsets, [done])

    def _write_checkpoint(
        self,
        directory: LogDirectory,
        name: str,
        offsets: Mapping[tuple[str, int], int],
        callbacks: list[Callable[[bool], None]],
    ) -> None:
        def done(error: BaseException | None) -> None:
            if isinstance(error, OSError):
                self._logs.report(directory, error)
            waiting = self._writing[directory, name]
            if waiting is None:
                del self._writing[directory, name]
            else:
                self._writing[directory, name] = None
                self._write_checkpoint(directory, name, *waiting)
            for callback in callbacks:
                callback(error is None)

        self._background.run(lambda: directory.write_checkpoint(name, offsets), done)

    # -- starting and deleting -------------------------------------------------------------------

    def forget_lines(self, directory: LogDirectory, deleted: Collection[tuple[str, int]]) -> None:
        """Before the folders of deleted partitions are removed: drop their lines, or replace them by those of
        new partitions of the same name.
        """
        now: dict[str, dict[tuple[str, int], int]] = {HIGH_WATERMARK_NAME: {}}
        now[RECOVERY_POINT_NAME], now[LOG_START_NAME] = self.offsets(directory)
        for name, offsets in now.items():
            before = directory.read_checkpoint(name)
            if before.keys() & deleted:
                kept = {key: offset for key, offset in before.items() if key not in deleted}
                made_again = {key: offsets[key] for key in deleted if key in offsets}
                directory.write_checkpoint(name, {**kept, **made_again})

    def take_up_cleaned_offsets(self, directory: LogDirectory) -> None:
        """Read how far compaction had come before the start."""
        for key, offset in directory.read_checkpoint(CLEANER_OFFSETS_NAME).items():
            log = self._logs.by_key.get(key)
            if log is not None and self._logs.homes[key] is directory:
                # Recovery may have cut the log: what is appended there now has not been looked at.
                self.cleaned_offsets[key] = min(offset, log.log_end_offset)

    def write_without_deleted(self, directory: LogDirectory, done: Callable[[], None]) -> None:
        """Rewrite the checkpoint files without deleted logs."""
        points, starts = self.offsets(directory)
        watermarks: dict[tuple[str, int], int] = {}
        for key, offset in self.high_watermarks.items():
            if self._logs.homes.get(key) is directory:
                # It may be that of a topic which had this name before.
                watermarks[key] = min(offset, self._logs.by_key[key].log_end_offset)
        due = [(RECOVERY_POINT_NAME, points), (LOG_START_NAME, starts), (HIGH_WATERMARK_NAME, watermarks)]

        def next_one(_: bool = True) -> None:
            if due:
                self.write_in_background(directory, *due.pop(), next_one)
            else:
                done()

        next_one()
