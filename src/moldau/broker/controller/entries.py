"""Changed partitions, cut into entries of the metadata log.

A broker that goes changes thousands of partitions. One entry for all would hold up every broker that replays
it, so there are several, each sound by itself; what else was decided belongs to the last (decision.py).
"""

from collections.abc import Sequence

from moldau.broker.controller.decision import PARTITIONS_AN_ENTRY
from moldau.broker.metadata.changes import Change, PartitionsChanged
from moldau.broker.metadata.image import PartitionState


class Entries:
    """Entries of at most PARTITIONS_AN_ENTRY partitions."""

    def __init__(self) -> None:
        self._full: list[list[Change]] = []
        self._changes: list[Change] = []
        self._count = 0

    def add(self, topic: str, rows: Sequence[tuple[int, PartitionState]]) -> None:
        """Further partitions of a topic."""
        start = 0
        while start < len(rows):
            if self._count == PARTITIONS_AN_ENTRY:
                self._full.append(self._changes)
                self._changes, self._count = [], 0
            part = rows[start : start + PARTITIONS_AN_ENTRY - self._count]
            self._changes.append(PartitionsChanged(topic, tuple(part)))
            self._count += len(part)
            start += len(part)

    def all(self) -> list[list[Change]]:
        """All entries; there is at least one, and the last may be empty."""
        return [*self._full, self._changes]
