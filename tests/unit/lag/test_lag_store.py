"""Windows, ages, forecasts, and what is forgotten."""

from __future__ import annotations

from moldau.services.lag.sentences import duration, sentence
from moldau.services.lag.store import ClusterStore, Limits
from moldau.services.lag.verdicts import Verdict

ORDERS = ("orders", 0)
SECOND_MS = 1000
LIMITS = Limits(intervals=4, stop_after_ms=0)


def store(**limits: int) -> ClusterStore:
    return ClusterStore("east", Limits(**{"intervals": 4, "stop_after_ms": 0, **limits}))


def test_a_slow_consumer_is_warned_of_with_age_and_forecast() -> None:
    found = store()
    for second in range(10):
        now = second * SECOND_MS
        found.saw_ends({ORDERS: 100 + second * 10}, now)
        found.commit("billing", ORDERS, second * 5, now, now)
    status = found.status("billing", 9 * SECOND_MS)
    assert status is not None
    (partition,) = status.partitions
    assert (status.verdict, partition.verdict) == (Verdict.WARN, Verdict.WARN)
    assert (status.total_lag, partition.lag, partition.complete) == (145, 145, 1.0)
    assert partition.seconds_to_end is None  # it reads 5 a second, and 10 are written
    assert "falls behind: 145 records" in sentence(status, 9 * SECOND_MS)


def test_a_consumer_that_gains_is_told_when_it_is_there() -> None:
    found = store()
    for second in range(4):
        now = second * SECOND_MS
        found.saw_ends({ORDERS: 1000 + second * 10}, now)
        found.commit("billing", ORDERS, second * 60, now, now)
    status = found.status("billing", 3 * SECOND_MS)
    assert status is not None
    assert status.partitions[0].seconds_to_end == (1030 - 180) / 50


def test_the_age_of_an_unread_record_comes_from_when_the_end_passed_it() -> None:
    found = store()
    for second, end in ((0, 100), (10, 200), (20, 300)):
        found.saw_ends({ORDERS: end}, second * SECOND_MS)
    found.commit("billing", ORDERS, 150, 20 * SECOND_MS, 20 * SECOND_MS)
    status = found.status("billing", 30 * SECOND_MS)
    assert status is not None
    assert status.lag_seconds == 25.0  # between 100 at 0 s and 200 at 10 s


def test_an_older_record_is_looked_up_in_the_log_and_asked_for_once() -> None:
    found = store()
    found.saw_ends({ORDERS: 100}, 50 * SECOND_MS)
    found.commit("billing", ORDERS, 10, 50 * SECOND_MS, 50 * SECOND_MS)
    assert found.unknown_ages(50 * SECOND_MS) == [(ORDERS, 10, 90)]
    assert found.status("billing", 50 * SECOND_MS).lag_seconds is None  # type: ignore[union-attr]
    found.saw_written(ORDERS, 10, 20 * SECOND_MS)
    assert found.unknown_ages(50 * SECOND_MS) == []
    assert found.status("billing", 60 * SECOND_MS).lag_seconds == 40.0  # type: ignore[union-attr]


def test_commits_that_follow_closely_share_a_place() -> None:
    found = store(distance_ms=10 * SECOND_MS)
    for second in range(9):
        found.commit("billing", ORDERS, second, second * SECOND_MS, second * SECOND_MS)
    found.commit("billing", ORDERS, 50, 10 * SECOND_MS, 10 * SECOND_MS)
    commits = found.details("billing")["orders"][0].commits  # type: ignore[index]
    assert [(each.offset, each.timestamp_ms) for each in commits] == [(8, 0), (50, 10 * SECOND_MS)]


def test_a_commit_read_again_is_passed_over() -> None:
    found = store()
    found.commit("billing", ORDERS, 9, 5000, 5000)
    found.commit("billing", ORDERS, 3, 2000, 6000)
    assert [each.offset for each in found.details("billing")["orders"][0].commits] == [9]  # type: ignore[index]


def test_what_has_gone_has_no_series() -> None:
    found = store()
    found.saw_ends({ORDERS: 5, ("old", 0): 5}, 0)
    for group in ("billing", "deleted", "stats"):
        found.commit(group, ORDERS, 1, 0, 0)
        found.commit(group, ("old", 0), 1, 0, 0)
    found.saw_topics({"orders": 1})
    assert found.topics() == ["orders"]
    assert list(found.details("billing") or {}) == ["orders"]
    found.saw_groups(["billing", "stats"])
    assert found.groups() == ["billing", "stats"]
    found.forget_commit("stats", ORDERS)
    assert found.groups() == ["billing"]
    assert found.consumers_of("orders") == ["billing"]


def test_topics_no_longer_consumed_are_forgotten() -> None:
    found = store(expire_ms=100 * SECOND_MS)
    found.commit("billing", ORDERS, 1, 0, 0)
    found.commit("billing", ("other", 0), 1, 90 * SECOND_MS, 90 * SECOND_MS)
    found.expire(101 * SECOND_MS)
    assert list(found.details("billing") or {}) == ["other"]
    found.expire(200 * SECOND_MS)
    assert found.groups() == []


def test_a_topic_made_anew_begins_at_zero_without_a_rewind_of_its_end() -> None:
    found = store()
    found.saw_ends({ORDERS: 500}, 0)
    found.saw_ends({ORDERS: 3}, 10 * SECOND_MS)
    found.commit("billing", ORDERS, 1, 10 * SECOND_MS, 10 * SECOND_MS)
    assert found.status("billing", 10 * SECOND_MS).total_lag == 2  # type: ignore[union-attr]


def test_a_stopped_group_is_told_with_its_holder() -> None:
    found = ClusterStore("east", LIMITS)
    found.saw_ends({ORDERS: 812 + 40}, 0)
    for second in range(4):
        found.commit("billing", ORDERS, 812, second * SECOND_MS, second * SECOND_MS)
    found.saw_owners("billing", {ORDERS: ("10.0.0.7", "worker-3")})
    now = 7 * 60 * SECOND_MS + 3 * SECOND_MS
    status = found.status("billing", now)
    assert status is not None
    assert (status.verdict, status.partitions[0].verdict) == (Verdict.ERR, Verdict.STOP)
    said = sentence(status, now)
    assert "orders-0 has committed nothing since offset 812, 7 min ago" in said
    assert "member worker-3 at 10.0.0.7 holds it" in said


def test_groups_that_are_not_wanted_are_not_kept() -> None:
    found = ClusterStore("east", LIMITS, lambda group: not group.startswith("console-"))
    found.commit("console-consumer-1", ORDERS, 1, 0, 0)
    assert found.groups() == []


def test_durations_read_at_once() -> None:
    wanted = {4: "4 s", 61: "1 min", 3600: "1 h", 11_100: "3 h 5 min", 187_200: "2 d 4 h"}
    assert {seconds: duration(seconds) for seconds in wanted} == wanted


def test_a_commit_from_the_future_does_not_shut_out_later_ones() -> None:
    """The clock of one broker was a year ahead; its successor's is right."""
    found = store()
    found.saw_ends({ORDERS: 100}, SECOND_MS)
    found.commit("billing", ORDERS, 10, 10**12, SECOND_MS)
    found.commit("billing", ORDERS, 20, 2 * SECOND_MS, 2 * SECOND_MS)
    status = found.status("billing", 3 * SECOND_MS)
    assert status is not None
    assert status.total_lag == 80


def test_a_partition_that_no_topic_has_takes_no_memory() -> None:
    """/consumer/GROUP has a row for each partition up to the last."""
    found = store()
    for index in (-1, 2**31 - 1):
        found.commit("billing", ("orders", index), 10, SECOND_MS, SECOND_MS)
    assert found.groups() == []
