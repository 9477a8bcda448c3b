"""Throttled replication: rates over windows, who is held back, and that nobody in sync is (KIP-73)."""

import pytest

from moldau.broker.replication.replication_quota import UNLIMITED, ReplicationQuota, throttled_here


class Time:
    now_ms = 5_000.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.fixture
def time():
    return Time()


def test_without_a_limit_nothing_is_exceeded(time):
    quota = ReplicationQuota(time)
    quota.record(10**15)
    assert quota.bytes_per_second == UNLIMITED
    assert not quota.exceeded()


def test_the_rate_is_the_mean_over_the_windows(time):
    quota = ReplicationQuota(time, window_count=4, window_ms=1_000)
    assert quota.rate == 0
    quota.record(300)
    assert quota.rate == 300, "over one window at least"
    time.now_ms += 2_000
    quota.record(100)
    assert quota.rate == 200
    time.now_ms += 2_000
    assert quota.rate == 50, "the first window is forgotten"
    time.now_ms += 10_000
    assert quota.rate == 0


def test_one_large_response_is_paid_for_by_waiting(time):
    quota = ReplicationQuota(time, window_count=11, window_ms=1_000)
    quota.bytes_per_second = 1_000
    assert not quota.exceeded()
    quota.record(5_000)
    waited_ms = 0
    while quota.exceeded():
        time.now_ms += 100
        waited_ms += 100
    assert waited_ms == 5_000


def test_over_a_long_time_the_rate_is_kept(time):
    quota = ReplicationQuota(time, window_count=11, window_ms=1_000)
    quota.bytes_per_second = 10_000
    sent = 0
    for _ in range(60_000 // 50):
        time.now_ms += 50
        if not quota.exceeded():
            quota.record(2_500)
            sent += 2_500
    assert 0.95 * 600_000 <= sent <= 1.15 * 600_000


def test_a_limit_that_changes_holds_at_once(time):
    quota = ReplicationQuota(time)
    quota.record(5_000)
    quota.bytes_per_second = 1_000
    assert quota.exceeded()
    quota.bytes_per_second = UNLIMITED
    assert not quota.exceeded()


def test_which_partitions_are_throttled_here():
    assert 0 not in throttled_here((), 1)
    assert 7 in throttled_here(("*",), 1)
    assert 7 not in throttled_here(("none",), 1)
    pairs = throttled_here(("0:1", "1:2", "2:1", "3:11"), 1)
    assert [index for index in range(5) if index in pairs] == [0, 2]
