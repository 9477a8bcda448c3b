"""What each client has used: a meter for each client (or group of clients) that has a quota.

Connections with the same user and client id share a meter, as `MeterKey` says. A connection keeps the meters
of its client; clients that are not connected keep theirs for as long as it has an effect: the time of all
samples. After that a fresh one is the same. So somebody who comes with ever new client ids fills no memory;
beyond `METERS_MAX` of such meters the oldest go first.
"""

import math
import weakref
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from moldau.broker.security.quotas.rate import Rate, Windows
from moldau.broker.security.quotas.token_bucket import TokenBucket
from moldau.common.access.quota_entities import LimitTable, MeterKey

METERS_MAX = 50_000
NO_LIMIT = math.inf
DELAY_MAX_MS = 2**31 - 1  # throttle_time_ms is an int32
_LOOKED_AT = 4  # how many old meters are looked at when one is made


class Meter:
    """The use of those who share a quota, and their limit."""

    __slots__ = (
        "__weakref__",
        "_all",
        "_table",
        "bucket",
        "key",
        "limit",
        "rate",
        "throttled_count",
        "throttled_ms",
        "used_ms",
    )

    def __init__(self, meters: "Meters", key: MeterKey, limit: float, now_ms: float) -> None:
        self._all = meters
        self._table = meters.table
        self.key = key
        self.limit = limit
        self.rate = Rate(meters.windows)
        self.bucket: TokenBucket | None = None
        self.used_ms = now_ms
        self.throttled_count = 0
        self.throttled_ms = 0

    def record(self, value: float) -> None:
        """So much was used."""
        now_ms = self._all.now_ms()
        if now_ms - self.used_ms >= self._all.windows.length_ms:
            self._all.keep(self)
        self.used_ms = now_ms
        self.rate.record(value, now_ms)

    def delay_ms(self, added: float = 0.0) -> int:
        """How long these clients must wait now; `added`: if they used so much more."""
        limit = self.current_limit()
        if limit == NO_LIMIT:
            return 0
        delay_ms = self.rate.delay_ms(limit, self._all.now_ms(), added)
        return min(delay_ms, self._all.delay_max_ms)

    def throttled(self, delay_ms: int) -> None:
        """An answer said so."""
        self.throttled_count += 1
        self.throttled_ms += delay_ms

    def current_limit(self) -> float:
        """The limit as it is set now; NO_LIMIT: there is none any more."""
        meters = self._all
        if self._table is not meters.table:
            self._table = meters.table
            limit = meters.table.of_meter(self.key)
            self.limit = NO_LIMIT if limit is None else limit
        return self.limit

    def per_second(self) -> float:
        """The rate now."""
        return self.rate.per_second(self._all.now_ms())

    # Changes of metadata

    def tokens(self) -> float:
        """How many changes of metadata are left."""
        limit = self.current_limit()
        return NO_LIMIT if limit == NO_LIMIT else self._bucket().tokens(limit, self._all.now_ms())

    def spend(self, count: float) -> None:
        """So many changes of metadata are made."""
        limit = self.current_limit()
        self.record(count)
        if limit != NO_LIMIT:
            self._bucket().spend(count, limit, self.used_ms)

    def bucket_delay_ms(self) -> int:
        """How long until further changes of metadata are taken."""
        limit = self.current_limit()
        if limit == NO_LIMIT:
            return 0
        return min(self._bucket().delay_ms(limit, self._all.now_ms()), DELAY_MAX_MS)

    def _bucket(self) -> TokenBucket:
        if self.bucket is None:
            self.bucket = TokenBucket(self._all.windows)
        return self.bucket


class Meters:
    """The meters of one kind of quota."""

    def __init__(
        self, windows: Windows, now_ms: Callable[[], float], delay_max_ms: int = DELAY_MAX_MS
    ) -> None:
        self.windows = windows
        self.now_ms = now_ms
        self.delay_max_ms = delay_max_ms
        self.table = LimitTable({}, "")
        """The limits; another table changes those of all meters."""
        self._live: weakref.WeakValueDictionary[MeterKey, Meter] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[MeterKey, Meter] = OrderedDict()  # those that a new connection must find
        self.throttled_count = 0
        self.throttled_ms = 0

    def of_client(self, user: str, client_id: str) -> Meter | None:
        """The meter of a client; None: it has no quota of this kind."""
        found = self.table.of_client(user, client_id)
        if found is None:
            return None
        key, limit = found
        meter = self._live.get(key)
        if meter is None:
            now_ms = self.now_ms()
            self._forget(now_ms)
            meter = self._live[key] = Meter(self, key, limit, now_ms)
        meter.current_limit()
        self._recent[key] = meter
        return meter

    def throttled(self, meter: Meter, delay_ms: int) -> None:
        """An answer told one of these clients to wait."""
        meter.throttled(delay_ms)
        self.throttled_count += 1
        self.throttled_ms += delay_ms

    def keep(self, meter: Meter) -> None:
        """The meter is in use again, perhaps after a pause."""
        self._recent[meter.key] = meter
        self._recent.move_to_end(meter.key)

    def recent(self, count: int) -> list[Meter]:
        """So many of the meters that were used lately, the latest first."""
        return list(islice(reversed(self._recent.values()), count))

    def __len__(self) -> int:
        return len(self._live)

    def _forget(self, now_ms: float) -> None:
        recent = self._recent
        oldest_ms = now_ms - self.windows.total_ms
        for _ in range(min(_LOOKED_AT, len(recent))):
            key, meter = next(iter(recent.items()))
            if meter.used_ms > oldest_ms and len(recent) < METERS_MAX:
                recent.move_to_end(key)
            else:
                del recent[key]
