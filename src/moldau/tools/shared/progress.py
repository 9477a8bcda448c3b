"""A progress line on standard error: a bar where the total is known, else a count and a rate.

Nothing is shown if standard error is no terminal; rich is imported only if it is.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Progress:
    """A context manager; call `show` with the progress from time to time."""

    def __init__(self, verb: str, total_bytes: int = 0) -> None:
        self._verb = verb
        self._total_bytes = total_bytes
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if (sys.stderr.isatty() and not sys.stdin.isatty()) or (self._total_bytes and sys.stderr.isatty()):
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                SpinnerColumn,
                TextColumn,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )
            from rich.progress import Progress as Bar

            shape = (BarColumn(), TimeRemainingColumn()) if self._total_bytes else ()
            self._bar = Bar(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                *shape,
                DownloadColumn(),
                TransferSpeedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._verb, total=self._total_bytes or None)
            self._bar.start()
        return self

    def show(self, count: int, done_bytes: int) -> None:
        """Show that `count` records and `done_bytes` bytes are done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done_bytes, description=f"{self._verb} {count:,} records")

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
