"""Removes files in the background: deleted partitions' folders, and segments that retention has taken out.

    flights-0  ->  flights-0.<32 hex digits>-delete  ->  its line leaves the checkpoint files  ->  removed

A folder is removed after a delay, thousands of them some at a time, and not before the checkpoint files were
written without it: a topic of that name may be made again, and after a crash its lines are distinguished
from those of the one before by the folder that is still there (recovery/loading.py).

Not here: who renames the folder (manager.py).
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.broker.log.files.directory import LogDirectory
from moldau.broker.log.upkeep.background import Background
from moldau.common.core.clock import Clock
from moldau.common.core.files import Files
from moldau.common.core.timers import Timers

_REMOVED_AT_ONCE = 64

logger = logging.getLogger("moldau.log.removal")


class _Folder(NamedTuple):
    due_ms: float
    deleted_ms: float
    path: str
    directory: LogDirectory | None
    """Whose checkpoint files may have a line of it; None: they have none."""


class Removal:
    """The folders and files that wait to be removed."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        timers: Timers,
        background: Background,
        forget: Callable[[LogDirectory, Callable[[], None]], None],
    ) -> None:
        """`forget` rewrites a directory's checkpoint files in the background, and then calls back."""
        self._files = files
        self._clock = clock
        self._timers = timers
        self._background = background
        self._forget = forget
        self._waiting: dict[int, deque[_Folder]] = {}
        """By delay."""
        self._forgotten_ms: dict[LogDirectory, float] = {}
        """When the checkpoint files were last written for a folder's sake."""

    def folder(self, path: str, delay_ms: int, directory: LogDirectory | None = None) -> None:
        """Remove this folder after the delay."""
        waiting = self._waiting.setdefault(delay_ms, deque())
        now_ms = self._clock.monotonic_ms()
        waiting.append(_Folder(now_ms + delay_ms, now_ms, path, directory))
        if len(waiting) == 1:
            self._timers.call_later(delay_ms, lambda: self._due(delay_ms))

    def _due(self, delay_ms: int) -> None:
        waiting = self._waiting[delay_ms]
        now_ms = self._clock.monotonic_ms()
        due: list[_Folder] = []
        while waiting and waiting[0].due_ms <= now_ms and len(due) < _REMOVED_AT_ONCE:
            due.append(waiting.popleft())

        def remove() -> None:
            for folder in due:
                try:
                    self._files.remove_tree(folder.path)
                except OSError as error:
                    logger.warning("%s could not be removed: %s", folder.path, error)

        def go_on(_: BaseException | None) -> None:
            if waiting:
                rest_ms = max(0, math.ceil(waiting[0].due_ms - self._clock.monotonic_ms()))
                self._timers.call_later(rest_ms, lambda: self._due(delay_ms))

        if due:
            self._after_forgetting(due, lambda: self._background.run(remove, go_on))
        else:
            go_on(None)

    def _after_forgetting(self, due: list[_Folder], done: Callable[[], None]) -> None:
        stale: list[LogDirectory] = [
            folder.directory
            for folder in due
            if folder.directory is not None
            and not folder.directory.offline
            and self._forgotten_ms.get(folder.directory, -1.0) <= folder.deleted_ms
        ]
        if not stale:
            done()
            return
        directory = stale[0]
        now_ms = self._clock.monotonic_ms()

        def forgotten() -> None:
            self._forgotten_ms[directory] = max(now_ms, *(folder.deleted_ms + 1 for folder in due))
            self._after_forgetting(due, done)

        self._forget(directory, forgotten)

    def files(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove these files after the delay."""
        if not paths:
            return

        def remove() -> None:
            for path in paths:
                self._files.remove(path)

        def done(error: BaseException | None) -> None:
            if error is not None:
                logger.warning("%d files of old segments could not be removed: %s", len(paths), error)

        self._timers.call_later(delay_ms, lambda: self._background.run(remove, done))
