"""Followers that are held back by `follower.replication.throttled.rate`: all of them, and with one timer."""

from types import SimpleNamespace
from typing import Any

from moldau.broker.replication.following.follower_session import FetchLimits
from moldau.broker.replication.following.leader_fetch import LeaderFetch
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.messages.fetch import FetchTopic

LEADER = 2
COUNT = 600


class Quota:
    def __init__(self) -> None:
        self.is_exceeded = False

    def exceeded(self) -> bool:
        return self.is_exceeded


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.quota = Quota()
        parts: Any = SimpleNamespace(
            node_id=1, host=SimpleNamespace(timers=self.timers), quota=self.quota, broker_epoch=lambda: -1
        )
        nobody: Any = None
        self.fetch = LeaderFetch(LEADER, parts, nobody, lambda: nobody)
        self.partitions: list[Any] = [
            SimpleNamespace(
                topic="t",
                topic_id=bytes(16),
                index=index,
                isr=(LEADER,),
                follower_throttled=index > 0,
                log=SimpleNamespace(latest_leader_epoch=0, log_start_offset=0),
                log_start_saved=None,
            )
            for index in range(COUNT)
        ]
        for partition in self.partitions:
            self.fetch.follow(partition, FetchFrom(LEADER, 0, 0))

    def told(self) -> list[int]:
        """A request is sent: which partitions it fetches."""
        session, topics = self.fetch._session, dict[bytes, FetchTopic]()
        if self.quota.exceeded():
            self.fetch._hold_back_all()
        session.request(FetchLimits(0, 1, 1, 1))
        for followed in session.take_changed():
            session.row(followed, topics, FetchLimits(0, 1, 1, 1))
        return sorted(followed.partition.index for followed in session.told)


def test_once_the_rate_is_exceeded_no_throttled_partition_is_fetched_until_it_is_not() -> None:
    bench = Bench()
    assert bench.told() == list(range(COUNT))
    bench.quota.is_exceeded = True  # by what came of a few of them
    assert bench.told() == [0]
    bench.timers.advance(1000)
    assert bench.told() == [0]
    bench.quota.is_exceeded = False
    bench.timers.advance(1000)
    assert bench.told() == list(range(COUNT))


def test_who_is_in_sync_or_throttled_no_more_goes_on() -> None:
    bench = Bench()
    bench.quota.is_exceeded = True
    assert bench.told() == [0]
    bench.partitions[5].isr = (LEADER, 1)
    bench.partitions[7].follower_throttled = False
    bench.fetch.stop(bench.partitions[9])
    bench.timers.advance(1000)
    assert bench.told() == [0, 5, 7]
    bench.quota.is_exceeded = False
    bench.timers.advance(1000)
    assert bench.told() == [index for index in range(COUNT) if index != 9]
