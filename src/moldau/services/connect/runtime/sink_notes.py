"""What is noted of a partition in a sink's group, so that a run comes again exactly as it was.

The metadata of the committed offset, JSON of a few bytes:

    {"to": 1500}            records from the committed offset up to, not including, 1500 are one run, which
    was
                            perhaps written
    {"to": [1500, 1720]}    two runs
    {"to": 1500, "bad": [3, [10, 12]]}   of these, counted from the committed offset, 3 and 10 to 12 are left
                            out: they are in the dead letter topic

A run is noted before it is written for the first time. What another program wrote there is not ours, and
means nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

NOTE_BYTES_MAX = 4_000
"""Of 4,096 that a group coordinator takes (offset.metadata.max.bytes)."""
_ENDS_MAX = 200


@dataclass
class Notes:
    """Of one partition: runs between the committed offset and what is written."""

    committed: int | None
    """Where the group's offset is; None: nowhere yet."""
    ends: list[int] = field(default_factory=list)
    """Where noted runs end, rising; all of them at or behind `committed`."""
    bad: set[int] = field(default_factory=set)
    """Offsets that are left out, since they are dead letters already."""

    @property
    def is_full(self) -> bool:
        """Flush and commit first: another run might not fit."""
        return len(self.ends) >= _ENDS_MAX

    def text(self) -> str:
        """The metadata to commit. ValueError: it is longer than a coordinator takes."""
        noted: dict[str, Any] = {}
        if self.ends:
            noted["to"] = self.ends[0] if len(self.ends) == 1 else self.ends
        if self.bad:
            base = self.committed or 0
            noted["bad"] = _ranges(offset - base for offset in sorted(self.bad) if offset >= base)
        text = json.dumps(noted, separators=(",", ":")) if noted else ""
        if len(text) > NOTE_BYTES_MAX:
            raise ValueError(f"{len(text)} bytes do not fit into an offset's metadata")
        return text

    def advance(self, offset: int) -> None:
        """All before this offset is written and lasting."""
        if self.committed is not None and offset < self.committed:
            return
        self.committed = offset
        self.ends = [each for each in self.ends if each > offset]
        self.bad = {each for each in self.bad if each >= offset}


def notes_from(committed: int | None, metadata: str | None) -> Notes:
    """What was noted with a committed offset; nothing if the text is not ours."""
    notes = Notes(committed)
    if committed is None or not metadata or not metadata.startswith("{"):
        return notes
    try:
        found = json.loads(metadata)
        ends = found.get("to", [])
        ends = [ends] if isinstance(ends, int) else [int(each) for each in ends]
        bad: set[int] = set()
        for each in found.get("bad", []):
            first, last = (each, each) if isinstance(each, int) else each
            if not 0 <= last - first <= 2**24:
                return notes
            bad.update(range(committed + first, committed + last + 1))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return notes
    if ends == sorted(set(ends)) and all(each > committed for each in ends):
        notes.ends = ends
    notes.bad = bad
    return notes


def _ranges(rising: Iterable[int]) -> list[int | list[int]]:
    """Neighbours as [first, last]."""
    made: list[list[int]] = []
    for each in rising:
        if made and each == made[-1][1] + 1:
            made[-1][1] = each
        else:
            made.append([each, each])
    return [first if first == last else [first, last] for first, last in made]
