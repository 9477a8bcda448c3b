"""Many partitions that pause after errors, and what is kept of those that are followed no more."""

import gc
import math
import random
import weakref
from types import SimpleNamespace

import pytest
from fetch_transcript import fake_partition

from moldau.broker.replication.following.fetch_machine import RESUMED_AT_ONCE, FetchMachine
from moldau.broker.replication.following.follower_session import FetchLimits
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.replica_fetch import FetchedRow

LEADER = 2
LIMITS = FetchLimits(500, 1, 1, 1)


class FakeLog(SimpleNamespace):
    """Can be referred to weakly, as logs can."""


def paused(count: int) -> FetchMachine:
    """A machine whose partitions have all got an error at time 0."""
    machine = FetchMachine(LEADER, random.Random(1), pause_ms_max=lambda: 1000)
    for index in range(count):
        partition = fake_partition(index)
        partition.log = FakeLog(latest_leader_epoch=0, log_start_offset=0)
        machine.follow(partition, FetchFrom(LEADER, 0, 0))
    machine.tick(0.0)
    begun = machine.request(LIMITS, 500)
    assert begun is not None
    for followed in begun[1]:
        machine.row_asked(followed, begun[0], LIMITS)
    machine.answered()
    for followed in list(machine.all()):
        machine.row(followed, FetchedRow(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), 0, 0.0)
    machine.session_answered(7)
    return machine


@pytest.mark.parametrize("at_once", [False, True])
def test_partitions_that_are_followed_no_more_are_not_kept_for_their_pauses(at_once: bool) -> None:
    machine = paused(3)
    logs = [weakref.ref(followed.partition.log) for followed in machine.all()]
    if at_once:
        machine.close()
    else:
        for partition in [followed.partition for followed in machine.all()]:
            machine.stop(partition)
        del partition
    gc.collect()
    assert [log() for log in logs] == [None] * 3


def test_many_pauses_end_some_at_a_time_before_the_next_request() -> None:
    count = 2 * RESUMED_AT_ONCE + 5
    machine = paused(count)
    assert (sum(each.is_fetched for each in machine.all()), machine.may_request(0.0)) == (0, False)
    assert 40 <= machine.next_ms() <= 60
    fetched = []
    for _ in range(3):
        machine.tick(60.0)
        fetched.append(sum(each.is_fetched for each in machine.all()))
        is_due = len(fetched) == 3
        assert machine.may_request(60.0) is is_due
        assert machine.next_ms() <= 60  # `tick` is called again at once, or a request is sent
    assert fetched == [RESUMED_AT_ONCE, 2 * RESUMED_AT_ONCE, count]


def test_pauses_that_are_over_when_all_stop_hold_nothing_up() -> None:
    machine = paused(RESUMED_AT_ONCE + 1)
    machine.tick(60.0)
    assert not machine.may_request(60.0)
    machine.close()
    machine.tick(60.0)
    assert machine.next_ms() == math.inf
    machine.follow(fake_partition(0), FetchFrom(LEADER, 1, 0))
    machine.tick(60.0)
    assert machine.may_request(60.0)
