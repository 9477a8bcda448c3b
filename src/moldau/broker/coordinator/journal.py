"""Undoes replayed records that were not committed.

A coordinator replays its records into its state as soon as they are decided, so that the next request sees
them, and appends them afterwards. If the append fails, the state must return to exactly what is
committed. So everything that replay changes lives in containers that record the old value here first:

    members = journal.dict()                    a dict; its values are never mutated, only replaced
    journal.assign(group, "group_epoch", 7)     an attribute
    journal.note(callable)                      anything else: how to undo it

    | committed ... | in flight | queued |      notes, oldest first; `commit(mark)` forgets from the left,
                    ^ mark                      `roll_back(mark)` undoes from the right

Invariant: after `roll_back(m)` every journaled container equals what it was when `mark()` gave m (the order
of a dict's keys excepted). While `recording` is false (loading a shard) nothing is noted.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ABSENT: Any = object()


class Journal:
    """The undo notes of one shard. Marks count notes since the beginning, so they stay valid when old ones
    are dropped."""

    __slots__ = ("_dropped", "_notes", "recording")

    def __init__(self) -> None:
        self.recording = True
        self._notes: list[tuple[Any, Any, Any]] = []
        self._dropped = 0

    def dict(self) -> "JournaledDict[Any, Any]":
        """A new dict whose changes are noted here."""
        return JournaledDict(self)

    def assign(self, target: object, attribute: str, value: Any) -> None:
        """`target.attribute = value`, undoable."""
        if self.recording:
            self._notes.append((target, attribute, getattr(target, attribute)))
        setattr(target, attribute, value)

    def note(self, undo: Callable[[], None]) -> None:
        """Note how to undo a change that is made elsewhere."""
        if self.recording:
            self._notes.append((undo, _ABSENT, None))

    def mark(self) -> int:
        """The present moment."""
        return self._dropped + len(self._notes)

    def commit(self, mark: int) -> None:
        """Everything before `mark` is committed and will never be undone."""
        del self._notes[: mark - self._dropped]
        self._dropped = max(self._dropped, mark)

    def roll_back(self, mark: int) -> None:
        """Undo everything since `mark`, newest first."""
        while len(self._notes) + self._dropped > mark:
            target, key, old = self._notes.pop()
            if isinstance(target, JournaledDict):
                target.restore(key, old)
            elif key is _ABSENT:
                target()
            else:
                setattr(target, key, old)

    def noted(self, container: "JournaledDict[Any, Any]", key: object, old: object) -> None:
        """For `JournaledDict`: `container[key]` was `old`."""
        self._notes.append((container, key, old))


class JournaledDict(dict[K, V]):
    """A dict that notes the old value of whatever changes. Reading costs what it costs in a plain dict."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def __setitem__(self, key: K, value: V) -> None:
        if self._journal.recording:
            self._journal.noted(self, key, self.get(key, _ABSENT))
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        if self._journal.recording:
            self._journal.noted(self, key, self[key])
        super().__delitem__(key)

    def pop(self, key: K, default: Any = None) -> Any:
        """Remove `key` and return its value; `default` (None) if it is absent."""
        if key not in self:
            return default
        value = self[key]
        del self[key]
        return value

    def setdefault(self, key: K, default: V) -> V:
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def update(self, other: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:  # type: ignore[override]
        for key, value in dict(other).items():
            self[key] = value

    def popitem(self) -> tuple[K, V]:
        key = next(reversed(self))
        return key, self.pop(key)

    def restore(self, key: K, old: V) -> None:
        """Put an old value back without noting it (for the journal)."""
        if old is _ABSENT:
            super().pop(key, None)
        else:
            super().__setitem__(key, old)
