"""One partition of a sink's task: which messages make the next run. A pure machine.

    polled messages ──> runs      a run that was noted before is handed out once all of it was read
                                  what comes new is a run as it was polled

`position` is the next offset to be polled: after anything unusual the consumer goes back there (`rewind`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moldau.connect.batch import TopicPartition
from moldau.services.connect.runtime.sink_notes import Notes


@dataclass(frozen=True)
class Run:
    """Consecutive messages, written under one number."""

    origin: TopicPartition
    messages: Sequence[Any]
    end: int
    """The offset behind it."""
    noted: bool
    """Whether it was noted already, and must come again as it was."""

    @property
    def first(self) -> int:
        """The offset of its first message."""
        offset: int = self.messages[0].offset()
        return offset


class SinkPartition:
    """See the module."""

    def __init__(self, origin: TopicPartition, start: int | None, notes: Notes) -> None:
        """`start`: where reading begins; None: at the beginning of what there is."""
        self.origin = origin
        self.notes = notes
        self.position = start
        self.written: int | None = None
        """The offset behind what was written since the last commit; None: nothing was."""
        self._replay: deque[int] = deque()
        self._kept: list[Any] = []
        self._replay_from_notes()

    def _replay_from_notes(self) -> None:
        at = self.position
        self._replay = deque(end for end in self.notes.ends if at is None or end > at)
        self._kept = []

    def take(self, messages: Sequence[Any], bytes_max: int) -> list[Run]:
        """The runs that are complete with these messages (rising offsets)."""
        runs: list[Run] = []
        fresh: list[Any] = []
        for message in messages:
            offset = message.offset()
            if self.position is not None and offset < self.position:
                continue  # of a fetch from before a rewind
            self.position = offset + 1
            runs += self._ended_before(offset)
            if self._replay:
                self._kept.append(message)
                runs += self._ended_before(offset + 1)
            else:
                fresh.append(message)
        return runs + self._cut(fresh, bytes_max)

    def reached_end(self, offset: int) -> list[Run]:
        """There is nothing before this offset that was not polled: a noted run may be shorter than it was."""
        if self.position is None or offset > self.position:
            self.position = offset
        return self._ended_before(offset)

    def _ended_before(self, offset: int) -> list[Run]:
        runs = []
        while self._replay and self._replay[0] <= offset:
            end = self._replay.popleft()
            part = [each for each in self._kept if each.offset() < end]
            self._kept = self._kept[len(part) :]
            if part:
                runs.append(Run(self.origin, part, end, True))
        return runs

    def _cut(self, messages: Sequence[Any], bytes_max: int) -> list[Run]:
        runs: list[Run] = []
        part: list[Any] = []
        size = 0
        for message in messages:
            length = len(message.value() or b"") + len(message.key() or b"")
            if part and size + length > bytes_max:
                runs.append(Run(self.origin, part, part[-1].offset() + 1, False))
                part, size = [], 0
            part.append(message)
            size += length
        if part:
            runs.append(Run(self.origin, part, part[-1].offset() + 1, False))
        return runs

    def rewind(self, start: int | None) -> None:
        """Read again from there (what is committed, or where the target says that it stands)."""
        self.position = start
        self.written = None
        self._replay_from_notes()
