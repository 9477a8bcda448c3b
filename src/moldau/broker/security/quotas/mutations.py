"""One request's changes of metadata, and what they cost (KIP-599).

Topics and partitions that are made or deleted cost a token for each partition. Newer versions are *strict*:
what finds the bucket empty is refused, topic by topic, with THROTTLING_QUOTA_EXCEEDED, and the client tries
that again after `throttle_time_ms`. Older versions know no such error: all is done, and the client waits
afterwards.

A decision may be made again, when another broker has decided at the same time; nothing is charged twice.
"""

from moldau.broker.security.quotas.meters import Meter, Meters


class Mutations:
    """The changes of one request."""

    __slots__ = ("_charged", "_meter", "_meters", "_refused", "_strict")

    def __init__(self, meter: Meter, meters: Meters, *, strict: bool) -> None:
        self._meter = meter
        self._meters = meters
        self._strict = strict
        self._charged: set[str] = set()
        self._refused = False

    def allows(self, topic: str, partition_count: int) -> bool:
        """Whether this change is within the quota; it is charged if so."""
        if topic in self._charged:
            return True
        if self._strict and self._meter.tokens() < 0:
            self._refused = True
            return False
        self._charged.add(topic)
        self._meter.spend(partition_count)
        return True

    def delay_ms(self) -> int:
        """How long the client must wait: after a refusal, or (older versions) after too many changes."""
        if self._strict and not self._refused:
            return 0
        delay_ms = self._meter.bucket_delay_ms()
        if delay_ms:
            self._meters.throttled(self._meter, delay_ms)
        return delay_ms
