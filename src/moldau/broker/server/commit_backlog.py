"""How far clients may run ahead of followers: the bytes of appends at acks=all that wait to be replicated.

    waiting, of one connection:   | 1 MB | 1 MB | 1 MB | 1 MB | 1 MB |  its next frames are not handled
                                                       share ^

A leader takes in more than its followers copy, where the cores are contended or a follower stands still. What
waits then grows without bound, followers leave the in-sync set for lag, and appends time out and are sent
again. So a connection goes on only while what it has waiting is within its share:

* `SHARE_BYTES`, less where many connections wait (none while more than `TOTAL_BYTES` wait in all), or
* its part of what was replicated in the last second, so that a healthy cluster is never held back.

Nobody is stuck: a connection waits for its own appends only, each of which is settled (replicated, timed out,
lost with the leadership, closed); with a share of 0 it has one request under way at a time, as in Kafka.

Requests of up to `COUNTED_BYTES` (parts/exchange.py) are not counted: a connection has at most
`_PARKED_MAX` unanswered ones (connection.py). Nor are those that wait for this broker only.
"""

from collections.abc import Callable

SHARE_BYTES = 4 << 20
TOTAL_BYTES = 32 << 20
_PERIOD_MS = 1000


class CommitBacklog:
    """What all connections of the broker have waiting."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self.waiting_bytes = 0
        self.connection_count = 0
        """How many connections have something waiting."""
        self._monotonic_ms = monotonic_ms
        self._period_started_ms = monotonic_ms()
        self._period_bytes = 0  # replicated in this period
        self._before_bytes = 0  # and in the one before it

    def begin(self, size_bytes: int, *, is_first: bool) -> None:
        """A request waits; `is_first`: it is its connection's only one."""
        self.waiting_bytes += size_bytes
        self.connection_count += is_first

    def end(self, size_bytes: int, *, is_last: bool, replicated: bool) -> None:
        """A request waits no more; `is_last`: nor does any other of its connection."""
        self.waiting_bytes -= size_bytes
        self.connection_count -= is_last
        if replicated:
            self._turn_period()
            self._period_bytes += size_bytes

    @property
    def share_bytes(self) -> int:
        """How much one connection may have waiting before its next frames are held back."""
        count, replicated_bytes = max(1, self.connection_count), self.replicated_bytes()
        if self.waiting_bytes > max(TOTAL_BYTES, replicated_bytes):
            return 0
        return max(min(SHARE_BYTES, TOTAL_BYTES // count), replicated_bytes // count)

    def replicated_bytes(self) -> int:
        """What was replicated in the last second: a part of the period before this one is estimated."""
        elapsed_ms = self._turn_period()
        return self._period_bytes + int(self._before_bytes * (1 - elapsed_ms / _PERIOD_MS))

    def _turn_period(self) -> float:
        """Begin a new period when this one is over; how long the present one lasts, in milliseconds."""
        now_ms = self._monotonic_ms()
        elapsed_ms = now_ms - self._period_started_ms
        if elapsed_ms < _PERIOD_MS:
            return elapsed_ms
        self._before_bytes = self._period_bytes if elapsed_ms < 2 * _PERIOD_MS else 0
        self._period_bytes = 0
        elapsed_ms %= _PERIOD_MS
        self._period_started_ms = now_ms - elapsed_ms
        return elapsed_ms
