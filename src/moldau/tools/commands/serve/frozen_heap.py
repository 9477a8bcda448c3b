"""A broker's partitions are kept out of the garbage collector's sight, so that no collection takes long.

Python's full collection looks at every object there is: some thousand partitions hold the event loop for 100
to 300 ms. `gc.freeze` takes what is there out of its sight, as it is done at the end of the start; partitions
that are made later are frozen once no more come. Young objects are collected just before: what is then in
cycles and not used any more, and old, stays for good, and that is little.

Partitions that go are in cycles, too. When many of the frozen ones have gone, all is looked at once more,
which takes its time; some while later, as their files are deleted after a minute.

Full collections come seldom besides: after `FULL_AFTER` times as many new objects as Python's default.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

LOOKS_EVERY_SECONDS = 1.0
GROWN_MIN = 200
GONE_MIN = 1000
_GONE_SHARE = 0.25
_STILL_AFTER_GROWTH = 2
_STILL_AFTER_DELETION = 90
"""Looks without a change. Deleted files are kept for a minute (`file.delete.delay.ms`), and so is the log."""
FULL_AFTER = 10
THRESHOLD_MAX = 2**31 - 1
"""What the garbage collector takes."""


class FrozenHeap:
    """Freezes the partitions of a broker, from `begin` on; `look` is called every second."""

    def __init__(self, partition_count: Callable[[], int], collector: Any = gc) -> None:
        """`collector`: the module `gc`, or what behaves like it."""
        self._partition_count = partition_count
        self._collector = collector
        self._frozen = 0  # how many there were when they were frozen
        self._last = 0
        self._still = 0

    def begin(self) -> None:
        """Freeze what is there."""
        young, middle, full = self._collector.get_threshold()
        # Who pauses full collections at this moment has set the largest number, and sets the usual one back.
        self._collector.set_threshold(young, middle, min(full * FULL_AFTER, THRESHOLD_MAX))
        self._collector.freeze()
        self._frozen = self._last = self._partition_count()

    def look(self) -> None:
        """Freeze partitions that have come, or free those that have gone, if that is worth it."""
        count = self._partition_count()
        self._still = self._still + 1 if count == self._last else 0
        self._last = count
        if count >= self._frozen + GROWN_MIN and self._still >= _STILL_AFTER_GROWTH:
            self._collector.collect(1)
            self._collector.freeze()
            self._frozen = count
        elif (
            self._frozen - count >= max(GONE_MIN, self._frozen * _GONE_SHARE)
            and self._still >= _STILL_AFTER_DELETION
        ):
            self._collector.unfreeze()
            self._collector.collect()
            self._collector.freeze()
            self._frozen = count
