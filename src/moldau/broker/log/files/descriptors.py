"""A limit on open files: segments open theirs when needed, and the least recently used one is closed.

Ten thousand partitions have more files than a process may hold open. The order is that of opening, with a
second chance for those used since (a flag is cheaper on the hot path than moving an entry at every use).
"""

from collections import OrderedDict
from typing import Protocol

DEFAULT_LIMIT = 1024
_DESCRIPTORS_MAX = 65_536


def segment_descriptors(open_files_max: int) -> int:
    """How many segments may be open at once where the process may have so many descriptors: half of them, the
    rest is for clients. Not positive: the system's limit is unknown.
    """
    if open_files_max <= 0:
        return DEFAULT_LIMIT
    return max(DEFAULT_LIMIT, min(open_files_max, _DESCRIPTORS_MAX) // 2)


class Holder(Protocol):
    """Something that holds a descriptor and can reopen it."""

    touched: bool

    def release_descriptor(self) -> None:
        """Close the descriptor; it will be opened again when needed."""


class DescriptorLimit:
    """At most `limit` holders have an open descriptor at a time."""

    __slots__ = ("_holders", "limit")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = max(2, limit)
        self._holders: OrderedDict[Holder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: Holder) -> None:
        """`holder` has opened its descriptor; others may lose theirs."""
        self._holders[holder] = None
        chances = len(self._holders)
        while len(self._holders) > self.limit:
            oldest = next(iter(self._holders))
            if oldest is holder or (oldest.touched and chances > 0):
                oldest.touched = False
                chances -= 1
                self._holders.move_to_end(oldest)
                continue
            del self._holders[oldest]
            oldest.release_descriptor()

    def closed(self, holder: Holder) -> None:
        """`holder` has closed its descriptor by itself."""
        self._holders.pop(holder, None)

    def close_all(self) -> None:
        """Close what is open: nobody goes on with these holders."""
        holders, self._holders = list(self._holders), OrderedDict()
        for holder in holders:
            holder.release_descriptor()
