"""One client's history as lines in a file (histories/lines.py), written as things happen.

All clients of a round run on one machine, whose monotonic clock is the clock of the history.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from histories.lines import Item, to_line


class Recorder:
    """A file that lines are added to, by any thread; each is one write, so that a kill -9 tears none."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def note(self, *items: Item) -> None:
        """Write items; a later one with the same key replaces the earlier."""
        data = b"".join(to_line(item).encode() + b"\n" for item in items)
        with self._lock:
            os.write(self._file, data)

    def close(self) -> None:
        os.close(self._file)


def now_s() -> float:
    """The clock of the history."""
    return round(time.monotonic(), 4)
