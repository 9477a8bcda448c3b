"""One timer tells the time to all that need it, and to nobody else."""

from collections.abc import Callable

import pytest

from moldau.broker.replication.ticker import Ticker
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers


class Counts:
    """Needs to be told so many times."""

    def __init__(self, needs: int, fails: bool = False) -> None:
        self.left = needs
        self.told: list[float] = []
        self.fails = fails

    def tick(self, now_ms: float) -> None:
        self.told.append(now_ms)
        self.left -= 1
        if self.fails:
            raise RuntimeError("a bug")


@pytest.fixture
def world() -> tuple[ManualTimers, Callable[[], float], Ticker[Counts]]:
    clock = ManualClock(0)
    timers = ManualTimers(clock)
    ticker: Ticker[Counts] = Ticker(timers, clock, 100, lambda each: each.left > 0)
    return timers, clock.monotonic_ms, ticker


World = tuple[ManualTimers, Callable[[], float], Ticker[Counts]]


def test_who_watches_is_told_at_once_and_then_in_periods_while_it_needs_it(world: World) -> None:
    timers, _, ticker = world
    counts = Counts(3)
    ticker.watch(counts)
    ticker.watch(counts)
    assert counts.told == [0]
    timers.advance(1000)
    assert counts.told == [0, 100, 200]
    assert not timers.waiting_count, "without anybody to tell there is no timer"
    counts.left = 1
    ticker.watch(counts)
    assert counts.told == [0, 100, 200, 1000]


def test_very_many_are_told_in_calls_of_their_own_and_one_that_fails_stops_nobody(world: World) -> None:
    timers, _, ticker = world
    many = [Counts(2, fails=number == 3) for number in range(1000)]
    with pytest.raises(RuntimeError):
        ticker.watch(many[3])
    for each in many:
        if each is not many[3]:
            ticker.watch(each)
    timers.advance(100)
    assert all(each.told[-1] == 100 for each in many)
    timers.advance(1000)
    assert all(len(each.told) == 2 for each in many)


def test_after_the_stop_nobody_is_told(world: World) -> None:
    timers, _, ticker = world
    counts = Counts(9)
    ticker.watch(counts)
    ticker.stop()
    timers.advance(1000)
    assert counts.told == [0]
