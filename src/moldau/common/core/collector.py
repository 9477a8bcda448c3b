"""The garbage collector, kept from looking at everything while a thread makes very many objects.

Python collects the oldest generation when enough objects are new: in the middle of parsing a schema of 1 MB,
several times, each time through all that was made so far, for 100 ms, in which no thread runs. Nothing of it
is garbage yet. Collections of new objects go on meanwhile; they are short.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic

_NEVER = 1_000_000_000
_LONGEST_SECONDS = 10.0


class FullCollections:
    """Pauses them; one object for the whole process."""

    def __init__(self, now_seconds: Callable[[], float] = monotonic) -> None:
        self._now_seconds = now_seconds
        self._lock = Lock()
        self._users = 0
        self._since_seconds = 0.0
        self._paused_seconds = 0.0
        """In all, since the last full collection."""
        self._collections = 0
        self._usual = gc.get_threshold()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No full collection meanwhile, from whatever thread. Who comes when the pause has lasted for 10 s
        does not make it longer: garbage in cycles is freed by full collections alone. Nor does who comes when
        short pauses have lasted for as long: one may follow the other without a collection in between.
        """
        joined = self._join()
        try:
            yield
        finally:
            if joined:
                self._leave()

    def _join(self) -> bool:
        with self._lock:
            now = self._now_seconds()
            if not self._users:
                collections = gc.get_stats()[2]["collections"]
                if collections != self._collections:
                    self._collections, self._paused_seconds = collections, 0.0
                if self._paused_seconds > _LONGEST_SECONDS:
                    return False
                self._since_seconds = now
                self._usual = gc.get_threshold()
                gc.set_threshold(self._usual[0], self._usual[1], _NEVER)
            elif self._paused_seconds + now - self._since_seconds > _LONGEST_SECONDS:
                return False
            self._users += 1
            return True

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._paused_seconds += self._now_seconds() - self._since_seconds
                gc.set_threshold(*self._usual)


full_collections = FullCollections()
