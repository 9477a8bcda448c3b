"""Deadlines by key, with one real timer behind the earliest.

A shard has thousands of sessions, and each heartbeat moves one of them later. So a deadline is an entry in a
dict, which moving it later changes alone; a heap keeps a note of it that may be outdated, but is never too
late. The shard has one timer, for the earliest note. When it fires, outdated notes are replaced, and the keys
of valid ones are due.

Invariant: for every key in the dict the heap holds a note that is not later than the key's deadline.
"""

import heapq
from collections.abc import Hashable
from typing import Any

Key = tuple[Any, ...]
"""For groups: (group id, name of the timer, member id or "")."""


class Deadlines:
    """Deadlines in wall-clock milliseconds, by key."""

    __slots__ = ("_at_ms", "_heap", "_noted", "_order")

    def __init__(self) -> None:
        self._at_ms: dict[Hashable, int] = {}
        self._noted: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Any]] = []
        self._order = 0

    def set(self, key: Key, at_ms: int) -> None:
        """Let `key` fall due at `at_ms`, whatever it was before."""
        self._at_ms[key] = at_ms
        noted = self._noted.get(key)
        if noted is None or noted > at_ms:
            self._note(key, at_ms)

    def cancel(self, key: Key) -> None:
        """Forget `key`."""
        self._at_ms.pop(key, None)

    def get(self, key: Key) -> int | None:
        """When `key` falls due, or None."""
        return self._at_ms.get(key)

    def earliest_ms(self) -> int | None:
        """When to look again: not later than the earliest deadline."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> list[Any]:
        """The keys that are due at `now_ms`, in the order of their deadlines; they are forgotten."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            noted_ms, _, key = heapq.heappop(self._heap)
            if self._noted.get(key) != noted_ms:
                continue  # an earlier note superseded this one
            del self._noted[key]
            at_ms = self._at_ms.get(key)
            if at_ms is None:
                continue
            if at_ms <= now_ms:
                del self._at_ms[key]
                due.append(key)
            else:
                self._note(key, at_ms)
        return due

    def __len__(self) -> int:
        return len(self._at_ms)

    def _note(self, key: Key, at_ms: int) -> None:
        self._noted[key] = at_ms
        self._order += 1
        heapq.heappush(self._heap, (at_ms, self._order, key))


class DeadlineChanges:
    """Changes that a decision makes to deadlines: read as if made, made by `apply`."""

    __slots__ = ("_changes", "_deadlines")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._changes: dict[Key, int | None] = {}

    def set(self, key: Key, at_ms: int) -> None:
        self._changes.pop(key, None)
        self._changes[key] = at_ms

    def cancel(self, key: Key) -> None:
        self._changes[key] = None

    def get(self, key: Key) -> int | None:
        return self._changes[key] if key in self._changes else self._deadlines.get(key)

    def apply(self) -> None:
        """Make the changes, in the order of the calls."""
        for key, at_ms in self._changes.items():
            if at_ms is None:
                self._deadlines.cancel(key)
            else:
                self._deadlines.set(key, at_ms)
