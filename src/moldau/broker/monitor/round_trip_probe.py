"""The probe and metrics of round trips: a record written through the broker's own listener and read back.

Not here: how one is made (peers/round_trip.py).
"""

from collections.abc import Callable, Iterable, Iterator

from moldau.broker.monitor.conditions import Condition, condition
from moldau.broker.monitor.exposition import single
from moldau.broker.monitor.health import Probe
from moldau.broker.monitor.sources import RoundTripSource

_FAILED_MIN = 2  # one may fall into an election
_SLOW_MS_MAX = 1000.0


def round_trips(part: Callable[[], RoundTripSource | None]) -> Probe:
    """round-trip-failing, round-trip-slow."""

    def probe() -> Iterable[Condition]:
        counts = part()
        if counts is None:
            return
        if counts.failed_in_a_row >= _FAILED_MIN:
            yield condition(
                "round-trip-failing", f"{counts.failed_in_a_row} in a row failed, the last: {counts.problem}"
            )
        elif counts.last_ms is not None and counts.last_ms > _SLOW_MS_MAX:
            yield condition("round-trip-slow", f"the last one took {counts.last_ms / 1000:.1f} s")

    return probe


def round_trip_metrics(counts: RoundTripSource) -> Iterator[str]:
    """How many there were, and how long the last took."""
    yield single("moldau_round_trips_total", counts.done)
    yield single("moldau_round_trips_failed_total", counts.failed)
    if counts.last_ms is not None:
        yield single("moldau_round_trip_last_seconds", counts.last_ms / 1000)
