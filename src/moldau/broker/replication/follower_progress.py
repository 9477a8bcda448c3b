"""What a leader knows of one follower: its log end offset, and when it was last caught up.

A follower that fetches from an offset has everything before it. It is caught up when it has fetched up to the
leader's end; under a steady load, one that reaches the leader's end of its previous fetch counts as caught up
at the time of that fetch (Kafka's lastCaughtUpTimeMs). One that is steadily several fetches behind never
reaches that; so an older end is remembered until it is reached:

    leader's end at its fetches    100 (remembered)   120   140   160 (remembered)   180
    fetched up to                   40                 60    80   100                120
                                                                    caught up when the leader was at 100

Broker epochs distinguish a broker's restarts (KIP-903): a fetch sent before a restart says nothing about the
restarted broker, whose log may be shorter.
"""

UNKNOWN_OFFSET = -1
ANY_BROKER_EPOCH = -1
_NEVER_MS = float("-inf")


class FollowerProgress:
    """One follower in one leader epoch."""

    __slots__ = (
        "_fetch_ms",
        "_leader_end_then",
        "_mark_end",
        "_mark_ms",
        "broker_epoch",
        "caught_up_ms",
        "eligible",
        "end_offset",
        "log_start_offset",
    )

    def __init__(self, in_sync: bool, now_ms: float) -> None:
        """A follower that starts in sync has `lag_max_ms` to send its first fetch."""
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        """Its log start offset, as its last fetch told it."""
        self.broker_epoch = ANY_BROKER_EPOCH
        self.eligible = False
        """Whether it may join the in-sync set: neither fenced nor shutting down, and under its registered
        broker epoch.
        """
        self.caught_up_ms = now_ms if in_sync else _NEVER_MS
        self._fetch_ms = _NEVER_MS
        self._leader_end_then = UNKNOWN_OFFSET
        self._mark_end = UNKNOWN_OFFSET  # the older end, not reached yet, and its time
        self._mark_ms = _NEVER_MS

    def fetched(
        self, offset: int, leader_end_offset: int, broker_epoch: int, eligible: bool, now_ms: float
    ) -> None:
        """The follower has everything before `offset`."""
        if offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif offset >= self._leader_end_then >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self._fetch_ms)
        elif offset >= self._mark_end >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self._mark_ms)
        if offset >= self._mark_end:
            self._mark_end, self._mark_ms = leader_end_offset, now_ms
        self._fetch_ms, self._leader_end_then = now_ms, leader_end_offset
        self.end_offset = offset
        self.broker_epoch = broker_epoch
        self.eligible = eligible

    def is_caught_up(self, leader_end_offset: int, lag_max_ms: float, now_ms: float) -> bool:
        """Whether it is at the leader's end, or was no longer ago than `lag_max_ms`."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms
