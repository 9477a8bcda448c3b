"""The broker's log directories as a set: which can be used, where a new log goes, and what the next start may
rely on after an unclean stop (run_marks.py).

Not here: one directory's lock, ids, checkpoints and errors (directory.py), whose logs lie in it (manager.py).
"""

import logging
import os
from collections.abc import Callable, Collection, Sequence
from typing import overload

from moldau.broker.log.files.directory import LogDirectory
from moldau.broker.log.files.run_marks import NAME as RUN_MARK_NAME
from moldau.broker.log.files.run_marks import RunMarks
from moldau.common.core.files import Files
from moldau.common.core.ids import uuid_to_text

logger = logging.getLogger("moldau.log.manager")


class NoUsableDirectory(OSError):
    """Every log directory is offline."""


class LogDirectories(Sequence[LogDirectory]):
    """All of them, usable or not, in the order of the settings."""

    def __init__(self, files: Files, paths: Sequence[str]) -> None:
        self._all = tuple(LogDirectory(files, path) for path in paths)
        self.run_marks: RunMarks | None = None
        """In a cluster: by which the next start tells what an unclean stop has taken."""

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, index: int) -> LogDirectory: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LogDirectory, ...]: ...
    def __getitem__(self, index: int | slice) -> LogDirectory | tuple[LogDirectory, ...]:
        return self._all[index]

    def usable(self) -> list[LogDirectory]:
        """Those that are not offline. NoUsableDirectory: there is none."""
        usable = [directory for directory in self._all if not directory.offline]
        if not usable:
            paths = ", ".join(directory.path for directory in self._all)
            raise NoUsableDirectory(f"no log directory can be used: {paths}")
        return usable

    def emptiest(self) -> LogDirectory:
        """Where a new log goes: the usable directory with the fewest, one with room before a full one."""
        return min(self.usable(), key=lambda directory: (directory.full, directory.log_count))

    @property
    def offline(self) -> list[str]:
        """The paths of those that are offline after a disk error."""
        return [directory.path for directory in self._all if directory.offline]

    @property
    def full(self) -> list[str]:
        """The paths of those whose disk is full."""
        return [directory.path for directory in self._all if directory.full]

    @property
    def ids(self) -> list[str]:
        """The ids of those that can be used, as text."""
        return [uuid_to_text(each.directory_id) for each in self._all if not each.offline]

    def at(self, path: str) -> LogDirectory | None:
        """The log directory at `path`, if it is one."""
        wanted = os.path.abspath(path)
        for directory in self._all:
            if os.path.abspath(directory.path) == wanted:
                return directory
        return None

    # What an unclean stop takes

    @property
    def complete_epochs(self) -> list[int]:
        """At the start: the broker epochs since which no directory has lost anything, oldest first. None: the
        ends of the logs may be lost.
        """
        held = [directory.complete_epochs for directory in self._all]
        return [epoch for epoch in held[0] if all(epoch in others for others in held)]

    def begin_run(
        self,
        usable: Sequence[LogDirectory],
        cut: Collection[LogDirectory],
        report: Callable[[LogDirectory, OSError], None],
    ) -> None:
        """From now on a stop is unclean; what it takes is told by the run marks, which promise that all is on
        the disk where it was forced. `cut`: where a log was cut before whole batches.
        """
        for directory in usable:
            try:
                if self.run_marks is not None:
                    if not directory.was_clean:
                        directory.complete_epochs = self.run_marks.complete_epochs(
                            directory.path, records_cut=directory in cut
                        )
                    if not directory.offline:
                        _mark(self.run_marks, directory, directory.complete_epochs)
                directory.clear_clean_mark()
            except OSError as error:
                report(directory, error)

    def mark_running(self, broker_epochs: Sequence[int]) -> None:
        """This broker is registered; its logs have lost nothing since these epochs. Blocks; on a worker."""
        if self.run_marks is None or self.offline:
            return
        for directory in self._all:
            _mark(self.run_marks, directory, broker_epochs)
        if self.offline:  # one failed meanwhile
            self.remove_marks()

    def remove_marks(self) -> None:
        """The next start may rely on nothing: a directory has failed."""
        if self.run_marks is not None:
            self.run_marks.remove(directory.path for directory in self._all)


def _mark(marks: RunMarks, directory: LogDirectory, broker_epochs: Sequence[int]) -> None:
    try:
        marks.write(directory.path, broker_epochs)
    except OSError as error:  # the disk may be full
        logger.warning(
            "%s/%s could not be written; if this process is killed, that counts as a loss of power: %s",
            directory.path,
            RUN_MARK_NAME,
            error,
        )
        marks.remove([directory.path])
