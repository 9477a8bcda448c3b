"""Followers that are held back by `follower.replication.throttled.rate`: all, and some released at a
time.
"""

import random
from typing import Any

from fetch_transcript import fake_partition

from moldau.broker.replication.following.fetch_machine import RELEASED_AT_ONCE, FetchMachine
from moldau.broker.replication.following.follower_session import FetchLimits
from moldau.broker.replication.role_outputs import FetchFrom

LEADER = 2
COUNT = 600
LIMITS = FetchLimits(0, 1, 1, 1)


class Bench:
    def __init__(self) -> None:
        self.exceeded = False
        self.now_ms = 0.0
        self.unthrottled: set[int] = {0}
        self.partitions: list[Any] = [fake_partition(index) for index in range(COUNT)]
        self.machine = FetchMachine(
            LEADER,
            random.Random(1),
            pause_ms_max=lambda: 1000,
            must_wait=lambda partition: self.exceeded and partition.index not in self.unthrottled,
        )
        for partition in self.partitions:
            self.machine.follow(partition, FetchFrom(LEADER, 0, 0))

    def pass_ms(self, duration_ms: int) -> None:
        for _ in range(duration_ms // 10):
            self.now_ms += 10
            self.machine.tick(self.now_ms)

    def told(self) -> list[int]:
        """A request is sent: which partitions it fetches."""
        machine = self.machine
        machine.tick(self.now_ms)
        if self.exceeded:
            machine.hold_back()
        begun = machine.request(LIMITS, 0)
        assert begun is not None
        for followed in begun[1]:
            machine.row_asked(followed, begun[0], LIMITS)
        return [each.partition.index for each in machine.all() if self.is_told(each.partition)]

    def is_told(self, partition: Any) -> bool:
        return self.machine.asked(partition.topic_id, partition.index) is not None


def test_once_the_rate_is_exceeded_no_throttled_partition_is_fetched_until_it_is_not() -> None:
    bench = Bench()
    assert bench.told() == list(range(COUNT))
    bench.exceeded = True  # by what came of a few of them
    assert bench.told() == [0]
    bench.pass_ms(1000)
    assert bench.told() == [0]
    bench.exceeded = False
    bench.pass_ms(1000)
    assert bench.told() == list(range(COUNT))


def test_who_is_in_sync_or_throttled_no_more_goes_on() -> None:
    bench = Bench()
    bench.exceeded = True
    assert bench.told() == [0]
    bench.unthrottled |= {5, 7}
    bench.machine.stop(bench.partitions[9])
    bench.pass_ms(1000)
    assert bench.told() == [0, 5, 7]
    bench.exceeded = False
    bench.pass_ms(1000)
    assert bench.told() == [index for index in range(COUNT) if index != 9]


def test_after_a_request_that_took_long_as_many_are_released_as_would_have_been_meanwhile() -> None:
    bench = Bench()
    bench.exceeded = True
    bench.told()
    bench.exceeded = False
    bench.machine.tick(bench.now_ms)
    bench.machine.tick(bench.now_ms + 199)
    assert sum(each.is_fetched for each in bench.machine.all()) == 1 + RELEASED_AT_ONCE
    bench = Bench()
    bench.exceeded = True
    bench.told()
    bench.exceeded = False
    bench.machine.tick(bench.now_ms)
    bench.machine.tick(bench.now_ms + 500)
    assert all(each.is_fetched for each in bench.machine.all())
