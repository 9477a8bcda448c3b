"""What a leader knows of one follower: how far it has fetched, and when it had last caught up.

A follower that fetches from an offset has everything before it. It is caught up when it has fetched up to the
leader's end; one that always lags by one fetch, because the leader goes on, counts as caught up at the moment
of its former fetch, if it has now come to where the leader's end was then.

Broker epochs tell a broker's lives apart (KIP-903): a fetch that was sent before a restart must not vouch for
the broker that came back, perhaps with less.
"""

UNKNOWN_OFFSET = -1
ANY_BROKER_EPOCH = -1
_NEVER_MS = float("-inf")


class FollowerProgress:
    """One follower in one leader epoch."""

    __slots__ = ("_fetch_ms", "_leader_end_then", "broker_epoch", "caught_up_ms", "eligible", "end_offset")

    def __init__(self, in_sync: bool, now_ms: float) -> None:
        """One that is in sync is given the usual time to show itself."""
        self.end_offset = UNKNOWN_OFFSET
        self.broker_epoch = ANY_BROKER_EPOCH
        self.eligible = False
        """Whether it may join: neither fenced nor shutting down, and in the life that is registered."""
        self.caught_up_ms = now_ms if in_sync else _NEVER_MS
        self._fetch_ms = _NEVER_MS
        self._leader_end_then = UNKNOWN_OFFSET

    def fetched(
        self, offset: int, leader_end_offset: int, broker_epoch: int, eligible: bool, now_ms: float
    ) -> None:
        """It has everything before `offset`."""
        if offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif offset >= self._leader_end_then >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self._fetch_ms)
        self._fetch_ms, self._leader_end_then = now_ms, leader_end_offset
        self.end_offset = offset
        self.broker_epoch = broker_epoch
        self.eligible = eligible

    def is_caught_up(self, leader_end_offset: int, lag_max_ms: float, now_ms: float) -> bool:
        """Whether it is at the leader's end, or was no longer ago than `lag_max_ms`."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms
