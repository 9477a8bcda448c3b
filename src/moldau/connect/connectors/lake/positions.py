"""Which offsets a table has by itself, and what is left out of a run that comes again.

    position   the offset after the last row that the table has of a topic partition; None: it has none

Read when a partition's first run for a table arrives, and again right before a commit: another task that
wrote in
between (a worker thought dead) has moved it, and then nothing of this commit may be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.errors import Retriable


class Positions:
    """Positions in one table, as this task last saw them."""

    def __init__(self, read: Callable[[TopicPartition], int | None]) -> None:
        self._read = read
        self._known: dict[TopicPartition, int | None] = {}

    def unwritten(self, batch: Batch) -> Batch | None:
        """What of a run the table does not have yet; None: it has all of it."""
        origin, offsets = batch.origin, batch.offsets
        assert origin is not None  # a sink's batches have both
        assert offsets is not None
        if origin not in self._known:
            self._known[origin] = self._read(origin)
        position = self._known[origin]
        if position is None or not len(batch) or offsets[0].as_py() >= position:
            return batch
        rows = [row for row, offset in enumerate(offsets.to_pylist()) if offset >= position]
        return batch.take(rows) if rows else None

    def confirm(self, partitions: Iterable[TopicPartition], table: str) -> None:
        """The table has still the positions that this task knows. Retriable if another task moved one."""
        for partition in partitions:
            now = self._read(partition)
            if now != self._known.get(partition):
                known, self._known[partition] = self._known.get(partition), now
                raise Retriable(
                    f"another task has written {partition.topic}-{partition.partition} to {table} "
                    f"(up to {now}, this one knew of {known}): starting again from there"
                )

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """As this task knows them."""
        return {each: self._known.get(each) for each in partitions}

    def moved(self, ends: Mapping[TopicPartition, int]) -> None:
        """This task's commit has stored everything before these offsets."""
        self._known.update(ends)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions are another task's."""
        for partition in partitions:
            self._known.pop(partition, None)


def see_unmoved(
    table: str, seen: Mapping[TopicPartition, int | None], now: Callable[[TopicPartition], int | None]
) -> None:
    """In the version of a table that a commit is based on. Retriable if another task has moved a position."""
    for partition, known in seen.items():
        if now(partition) != known:
            raise Retriable(
                f"another writer was faster: {partition.topic}-{partition.partition} is in {table} up to "
                f"{now(partition)}, this task knew of {known}"
            )
