"""Limits the bytes per second of throttled replicas, so that a reassignment leaves room for clients (KIP-73).

    leader     leaves throttled partitions out of its responses to followers that are not in sync
    follower   leaves throttled partitions that are not in sync out of its requests
    folders    a copy between log directories waits (log directories of one broker)

Each is checked before the bytes move and counted afterwards: one response may exceed the rate, and the next
ones wait until the mean over the windows is below the limit again. Replicas in sync are never held back, but
their bytes count.

    | 1 s | 1 s | ... | now |     bytes in the last `window_count` windows / time since the oldest of them

Topics' settings say which replicas are throttled (`throttled_here`), brokers' settings the rates.
"""

import sys
from collections import deque
from collections.abc import Callable, Collection, Sequence

UNLIMITED = sys.maxsize  # the settings' default
WINDOW_COUNT = 11
WINDOW_MS = 1_000


class ReplicationQuota:
    """One rate, measured and limited."""

    def __init__(
        self,
        monotonic_ms: Callable[[], float],
        *,
        window_count: int = WINDOW_COUNT,
        window_ms: float = WINDOW_MS,
    ) -> None:
        self.bytes_per_second = UNLIMITED
        """The limit; it may be changed at any time."""
        self._monotonic_ms = monotonic_ms
        self._window_count = window_count
        self._window_ms = window_ms
        self._windows: deque[tuple[float, int]] = deque()
        """Start and bytes of each window in which there were any, oldest first."""
        self._bytes = 0

    def record(self, size_bytes: int) -> None:
        """So many bytes of throttled replicas were moved."""
        now_ms = self._monotonic_ms()
        self._forget(now_ms)
        windows = self._windows
        if windows and now_ms - windows[-1][0] < self._window_ms:
            start_ms, counted_bytes = windows[-1]
            windows[-1] = (start_ms, counted_bytes + size_bytes)
        else:
            windows.append((now_ms, size_bytes))
        self._bytes += size_bytes

    @property
    def rate(self) -> float:
        """The mean over the windows, in bytes per second."""
        now_ms = self._monotonic_ms()
        self._forget(now_ms)
        if not self._windows:
            return 0.0
        return self._bytes * 1_000 / max(now_ms - self._windows[0][0], self._window_ms)

    def exceeded(self) -> bool:
        """Whether throttled replicas must wait now."""
        return self.bytes_per_second < UNLIMITED and self.rate > self.bytes_per_second

    def _forget(self, now_ms: float) -> None:
        oldest_ms = now_ms - self._window_count * self._window_ms
        windows = self._windows
        while windows and windows[0][0] <= oldest_ms:
            self._bytes -= windows.popleft()[1]


class ThrottledPartitions:
    """The partitions of one topic whose replica on this broker is throttled."""

    __slots__ = ("_every", "_indexes")

    def __init__(self, *, every: bool = False, indexes: Collection[int] = ()) -> None:
        self._every = every
        self._indexes = frozenset(indexes)

    def __contains__(self, index: int) -> bool:
        return self._every or index in self._indexes


_NONE = ThrottledPartitions()


def throttled_here(pairs: Sequence[str], node_id: int) -> ThrottledPartitions:
    """What a topic's setting (`partition:broker` pairs, or `*`) says about this broker."""
    if not pairs:
        return _NONE
    if tuple(pairs) == ("*",):
        return ThrottledPartitions(every=True)
    split = [pair.partition(":") for pair in pairs]
    own = str(node_id)
    return ThrottledPartitions(indexes=[int(index) for index, _, broker in split if broker == own])
