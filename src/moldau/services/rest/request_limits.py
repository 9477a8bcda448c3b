"""Which operations are served, and how many requests and records a second: kafka-rest's settings for both.

    api.endpoints.allowlist, .blocklist    operations by name (api.v3.topics.list, api.v3.acls.*)
    rate.limit.*                           every request costs permits; all but those that write records in v3
    api.v3.produce.rate.limit.*            each record that is written in v3, also within a stream

A rate lets through what a second of silence has saved, at most, and then its number a second. What costs more
than is left goes through, and the next ones wait for it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from moldau.common.settings.rows import SettingError
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.settings import RestSettings

TOO_MANY_REQUESTS = 429
_COSTS = "rate.limit.costs"


class ServedOperations:
    """An allowlist and a blocklist of operations' names; * stands for any end."""

    def __init__(self, allowlist: Iterable[str] = (), blocklist: Iterable[str] = ()) -> None:
        self._allowlist = tuple(allowlist)
        self._blocklist = tuple(blocklist)

    def is_served(self, names: Sequence[str]) -> bool:
        """Whether an operation is served that has these names, one or several."""
        allowed = not self._allowlist or _named(names, self._allowlist)
        return allowed and not _named(names, self._blocklist)


def _named(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


class Rate:
    """So many a second."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._per_second = per_second
        self._clock = clock
        self._left = float(per_second)
        self._at = clock()

    def wait_seconds(self) -> float:
        """How long until something may be taken; 0: now."""
        now = self._clock()
        self._left = min(self._per_second, self._left + (now - self._at) * self._per_second)
        self._at = now
        return max(0.0, -self._left / self._per_second)

    def take(self, count: int) -> None:
        """Take, whether or not there is so much."""
        self._left -= count


class RequestLimits:
    """The permits of requests: `rate.limit.*`."""

    def __init__(self, settings: RestSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """SettingError."""
        self._rate = Rate(settings.rate_limit_permits_per_sec, clock) if settings.rate_limit_enable else None
        self._timeout_seconds = settings.rate_limit_timeout_ms / 1000
        self._default_cost = settings.rate_limit_default_cost
        self._costs = _costs(settings.rate_limit_costs)

    async def admit(self, names: Sequence[str]) -> None:
        """Take the permits of a request, waiting for a while if that is allowed. HttpProblem 429."""
        if self._rate is None:
            return
        cost = self.cost(names)
        if not cost:
            return
        wait_seconds = self._rate.wait_seconds()
        if wait_seconds > self._timeout_seconds:
            raise _too_many("rate.limit.permits.per.sec", wait_seconds)
        self._rate.take(cost)
        if wait_seconds:
            await asyncio.sleep(wait_seconds)

    def cost(self, names: Sequence[str]) -> int:
        """What a request costs: by its own name, else by a pattern, else the default."""
        for name in names:
            if name in self._costs:
                return self._costs[name]
        for pattern, cost in self._costs.items():
            if _named(names, [pattern]):
                return cost
        return self._default_cost


class ProduceLimits:
    """The rate of records and of their bytes: `api.v3.produce.rate.limit.*`. There is one cluster, so of the
    limit of a cluster and that of the proxy the smaller holds."""

    def __init__(self, settings: RestSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates: tuple[Rate, ...] = ()
        if settings.api_v3_produce_rate_limit_enabled:
            self._rates = (
                Rate(
                    min(
                        settings.api_v3_produce_rate_limit_max_requests_per_sec,
                        settings.api_v3_produce_rate_limit_max_requests_global_per_sec,
                    ),
                    clock,
                ),
                Rate(
                    min(
                        settings.api_v3_produce_rate_limit_max_bytes_per_sec,
                        settings.api_v3_produce_rate_limit_max_bytes_global_per_sec,
                    ),
                    clock,
                ),
            )

    def check(self, size_bytes: int) -> None:
        """Count a record. HttpProblem 429: it is not to be written."""
        if not self._rates:
            return
        wait_seconds = max(rate.wait_seconds() for rate in self._rates)
        if wait_seconds:
            raise _too_many("api.v3.produce.rate.limit", wait_seconds)
        for rate, count in zip(self._rates, (1, size_bytes), strict=True):
            rate.take(count)


def _too_many(setting: str, wait_seconds: float) -> HttpProblem:
    return HttpProblem(
        TOO_MANY_REQUESTS,
        f"Request rate limit exceeded: try again later ({setting}).",
        headers={"Retry-After": str(max(1, math.ceil(wait_seconds)))},
    )


def _costs(entries: Iterable[str]) -> Mapping[str, int]:
    found = {}
    for entry in entries:
        name, _, cost = entry.partition("=")
        if not (name.strip() and cost.strip().isascii() and cost.strip().isdigit()):
            raise SettingError(
                _COSTS, f"{_COSTS}={entry} is not NAME=COST: write api.v3.clusters.*=1,api.v3.brokers.list=2"
            )
        found[name.strip()] = int(cost)
    return found
