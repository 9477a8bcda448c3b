"""How fast this broker's replicas catch up: as fast as they can, and slower while others wait for a core.

A broker that comes back asks for one full response after the other, and with its leaders takes all the CPU
there is; what clients send waits meanwhile. So a fetch of those that catch up rests after each full response,
for a millisecond at least, and looks how late its timer fires:

    response ── append ── rest 1 ms ──────────> on time: nobody waits for a core
    response ── append ── rest 1 ms ─ ─ ─ ─ ─ > late: the machine is crowded, and the next rests are longer

`crowding` is between 0 and 1; it rises quickly and falls slowly. All fetches together take no more than
`FLOOR_BYTES_PER_MS / crowding`, so that giving way costs 4 s a GB at most. And they ask for small responses
then: what others wait for is the end of a piece of work, here and at the leader.

Nothing rests while it would be wrong to (`Gap`): a partition is under `min.insync.replicas`, so that
producers wait for just this replica, or the gap is not closing, because producers are as fast as that.

State machines without I/O; giving_way.py rests. Not here: limits that an administrator sets
(replication_quota.py).
"""

from moldau.broker.replication.following.follower_session import FetchLimits

FULL_BYTES = 256 * 1024
"""A response of fewer bytes has all there is, or nearly."""
FLOOR_BYTES_PER_MS = 250_000
REST_MS_MIN = 1.0
REST_MS_MAX = 200.0
LATE_MS = 2.0
"""A timer is up to a millisecond late on a machine without other work, and as much by its rounding."""
CROWDED_BYTES = 512 * 1024
"""Of a response, while the machine is crowded."""
LOOK_MS = 1_000.0
_CREDIT_MS = 50.0
"""How long a fetch that was slower than its rate may be faster after it."""
_RISES_BY = 0.25
_FALLS_BY = 0.02
_CLOSES_BY_PER_S = 1 / 600
"""The share of the gap that must go each second: then it is closed in ten minutes."""
_STALE_MS = 10 * LOOK_MS


class CatchUpPace:
    """The pace of all fetches of this broker that catch up."""

    __slots__ = ("_due_ms", "crowding")

    def __init__(self) -> None:
        self.crowding = 0.0
        """How much others wait for a core, from 0 to 1."""
        self._due_ms = 0.0  # when all bytes so far may have come, at the rate of now

    def within(self, limits: FetchLimits) -> FetchLimits:
        """What to ask for at once, where this much is allowed."""
        if not self.crowding:
            return limits
        return limits._replace(response_bytes_max=min(limits.response_bytes_max, CROWDED_BYTES))

    def rest_ms(self, size_bytes: int, now_ms: float) -> float:
        """How long to rest after a full response of so many bytes."""
        self._due_ms = max(self._due_ms, now_ms - _CREDIT_MS)
        self._due_ms += self.crowding * size_bytes / FLOOR_BYTES_PER_MS
        return min(max(self._due_ms - now_ms, REST_MS_MIN), REST_MS_MAX)

    def rested(self, late_ms: float) -> None:
        """The timer of a rest fired so late."""
        if late_ms > LATE_MS:
            self.crowding = min(1.0, self.crowding + _RISES_BY)
        else:
            self.crowding = max(0.0, self.crowding - _FALLS_BY)


class Gap:
    """How far the replicas are behind one leader, looked at once a second; whether they must hurry."""

    __slots__ = ("_looked_ms", "_records", "hurries")

    def __init__(self) -> None:
        self.hurries = False
        self._records = 0
        self._looked_ms = float("-inf")

    def is_due(self, now_ms: float) -> bool:
        """Whether to look again."""
        return now_ms - self._looked_ms >= LOOK_MS

    def seen(self, records: int, *, is_waited_for: bool, now_ms: float) -> None:
        """So many records are missing in all. `is_waited_for`: producers wait for one of these replicas."""
        passed_ms = now_ms - self._looked_ms
        self.hurries = is_waited_for
        if passed_ms < _STALE_MS:  # else they were in sync in between
            closed = self._records - records
            self.hurries = is_waited_for or closed < self._records * _CLOSES_BY_PER_S * passed_ms / 1000
        self._records, self._looked_ms = records, now_ms
