"""Progress of something that counts down, on standard error: one line that is rewritten on a terminal, a line
for each tenth of the way elsewhere.
"""

from __future__ import annotations

import sys
from types import TracebackType


class Countdown:
    """A context manager; call `show` with what is left."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._first: int | None = None
        self._shown: int | None = None
        self._terminal = sys.stderr.isatty()

    def show(self, left: int) -> None:
        """Show that so many are left."""
        if left == self._shown:
            return
        if self._first is None or left > self._first:
            self._first = left
        if self._terminal:
            print(f"\r\033[K{left:,} of {self._first:,} {self._what}", end="", file=sys.stderr, flush=True)
        elif self._shown is None or self._shown - left >= max(1, self._first // 10):
            print(f"{left:,} of {self._first:,} {self._what}", file=sys.stderr, flush=True)
        else:
            return
        self._shown = left

    def __enter__(self) -> Countdown:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._terminal and self._shown is not None:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
