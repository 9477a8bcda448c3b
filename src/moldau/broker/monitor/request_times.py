"""Request durations as histograms, cheap enough for the request path: an index and an increment.

Durations are in microseconds, and a bucket is the bit length of the duration: below 2, 4, 8, ...
microseconds. That needs no search and no configuration, and a factor of two is precise enough for monitoring.
"""

from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import NamedTuple

_BUCKETS = 26  # the last holds everything from 2**25 us, 33 s, upwards


class Histogram:
    """The durations of one API."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * (_BUCKETS + 1)
        self.sum_us = 0

    def observe(self, time_us: int, weight: int = 1) -> None:
        """Add one duration; `weight` is the number of requests it is a sample of."""
        bucket = time_us.bit_length()
        self.counts[bucket if bucket < _BUCKETS else _BUCKETS] += weight
        self.sum_us += time_us * weight


class Bucket(NamedTuple):
    """The number of requests within `le_seconds` (None: all), smaller buckets included."""

    le_seconds: float | None
    total: int


def microseconds() -> int:
    """The machine's performance counter."""
    return perf_counter_ns() // 1000


class RequestTimes:
    """One histogram an API, created on first use."""

    __slots__ = ("by_api", "now_us")

    def __init__(self, now_us: Callable[[], int] = microseconds) -> None:
        """`now_us`: the counter for durations."""
        self.now_us = now_us
        self.by_api: dict[int, Histogram] = {}

    def of(self, api_key: int) -> Histogram:
        """The histogram of an API; keep it and call its `observe`."""
        histogram = self.by_api.get(api_key)
        if histogram is None:
            histogram = self.by_api[api_key] = Histogram()
        return histogram


def cumulative(histogram: Histogram, every: int = 2) -> Iterator[Bucket]:
    """The buckets from 64 us on, in steps of `every` powers of two; the unbounded one last."""
    total = 0
    for bits, count in enumerate(histogram.counts):
        total += count
        if bits >= 6 and bits < _BUCKETS and (bits - 6) % every == 0:
            # A time of this bit length is at most 2**bits - 1 microseconds.
            yield Bucket((2**bits) / 1e6, total)
    yield Bucket(None, total)
