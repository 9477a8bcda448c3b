"""The state of one share-partition as the share coordinator keeps it: immutable, changed by updates.

    start offset ──┐
                   [ batches: offsets, delivery state, delivery count ][ not named: available, never delivered
                   ]

Two epochs fence writers: the state epoch an earlier life of the group, the leader epoch an earlier leader of
the partition.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

NOT_CHOSEN = -1
"""The start offset of a share-partition whose leader has not chosen it yet."""
NOT_KNOWN = -1

_FIRST = itemgetter(0)


class StateBatch(NamedTuple):
    """Offsets (both inclusive) in one delivery state: 0 available, 2 acknowledged, 4 archived."""

    first: int
    last: int
    state: int
    deliveries: int


class Key(NamedTuple):
    """A share-partition."""

    group_id: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """See the module. `update_count`: updates written since the last snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    ended_count: int
    created_ms: int
    batches: tuple[StateBatch, ...] = ()
    update_count: int = 0

    def updated(
        self, leader_epoch: int, start_offset: int, ended_count: int, batches: Iterable[StateBatch]
    ) -> "ShareState":
        """The state after an update; start offset -1: unchanged."""
        start = self.start_offset if start_offset == NOT_CHOSEN else start_offset
        return replace(
            self,
            leader_epoch=leader_epoch,
            start_offset=start,
            ended_count=ended_count,
            batches=merged(self.batches, batches, start),
            update_count=self.update_count + 1,
        )


def merged(
    batches: Iterable[StateBatch], changes: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """The batches after the changes, of which later ones count; without what lies before `start_offset`."""
    out = list(batches)
    for change in changes:
        _lay_over(out, change)
    kept: list[StateBatch] = []
    for batch in out:
        if batch.last < start_offset:
            continue
        first = max(batch.first, start_offset)
        before = kept[-1] if kept else None
        if before is not None and before.last + 1 == first and before[2:] == batch[2:]:
            kept[-1] = before._replace(last=batch.last)
        else:
            kept.append(batch._replace(first=first))
    return tuple(kept)


def _lay_over(batches: list[StateBatch], change: StateBatch) -> None:
    """Put a batch into sorted, disjoint ones, over what is there."""
    first, last = change.first, change.last
    if last < first:
        return
    begin = bisect_right(batches, first, key=_FIRST)
    if begin and batches[begin - 1].last >= first:
        begin -= 1
    end = begin
    pieces: list[StateBatch] = []
    while end < len(batches) and batches[end].first <= last:
        old = batches[end]
        if old.first < first:
            pieces.append(old._replace(last=first - 1))
        end += 1
    pieces.append(change)
    if end > begin and batches[end - 1].last > last:
        pieces.append(batches[end - 1]._replace(first=last + 1))
    batches[begin:end] = pieces
