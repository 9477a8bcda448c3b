"""Progress of a load on standard error while it runs: a bar, the rate of the last moments. Only on a
terminal.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Live:
    """A context manager; `show` is told what was done since it was last called."""

    def __init__(self, verb: str, records: int) -> None:
        self._verb = verb
        self._records = records
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Live:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TaskProgressColumn,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(show_speed=True),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[volume]}"),
                console=Console(stderr=True),
                transient=True,
                auto_refresh=False,  # a thread of its own would take the interpreter from the load
            )
            self._task = self._bar.add_task(self._verb, total=self._records, volume="")
            self._volume_bytes = 0.0
            self._bar.start()
        return self

    def show(self, records: int, size_bytes: float) -> None:
        """`records` more are done, with `size_bytes` bytes."""
        if self._bar is None:
            return
        self._volume_bytes += size_bytes
        volume = f"{self._volume_bytes / 1024 / 1024:.1f} MiB"
        self._bar.update(self._task, advance=records, volume=volume, refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
