"""A histogram of latencies: exact counts, times with three significant digits, bounded memory.

Values below a millisecond are kept in microseconds; above, three digits are kept of each decade, so a day of
load needs a few thousand counters at most. Percentiles are at most half a percent off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

_US_A_MS = 1000.0
PERCENTILES = (0.5, 0.95, 0.99, 0.999)


class Latencies:
    """Latencies in milliseconds, each with the number of records that had it."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0.0
        self._sum_ms = 0.0
        self._counts: Counter[int] = Counter()

    def add(self, latency_ms: float, count: int = 1) -> None:
        """Count `count` records with this latency."""
        self.count += count
        self._sum_ms += latency_ms * count
        self.max_ms = max(self.max_ms, latency_ms)
        self._counts[_rounded_us(int(latency_ms * _US_A_MS))] += count

    @property
    def mean_ms(self) -> float:
        """The mean, exactly; 0 if nothing was counted."""
        return self._sum_ms / self.count if self.count else 0.0

    def percentile_ms(self, share: float) -> float:
        """The smallest latency that at least this share of all records did not exceed."""
        wanted = share * self.count
        seen = 0
        for value_us, count in sorted(self._counts.items()):
            seen += count
            if seen >= wanted:
                return min(value_us / _US_A_MS, self.max_ms)
        return 0.0

    def bars(self, rows: int = 12) -> Iterator[tuple[float, float, int]]:
        """Bounds from and to (ms) and the count of each row of a chart: bounds double from row to row."""
        if not self.count:
            return
        ordered = sorted(self._counts.items())
        upper_us = max(1, ordered[0][0])
        bounds = [upper_us]
        while bounds[-1] < ordered[-1][0]:
            bounds.append(bounds[-1] * 2)
        while len(bounds) > rows:
            bounds = bounds[1::2] if len(bounds) % 2 == 0 else bounds[::2]
        lower_us = 0
        for bound in bounds:
            count = sum(amount for value, amount in ordered if lower_us < value <= bound)
            if lower_us == 0:
                count += self._counts.get(0, 0)
            yield lower_us / _US_A_MS, bound / _US_A_MS, count
            lower_us = bound


def _rounded_us(value_us: int) -> int:
    if value_us < 1000:
        return value_us
    step: int = 10 ** (len(str(value_us)) - 3)
    return (value_us + step // 2) // step * step
