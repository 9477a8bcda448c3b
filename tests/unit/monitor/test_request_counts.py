"""Requests are counted by API and version, and what hot code keeps is what the metrics read."""

from moldau.broker.monitor.request_counts import RequestCounts


def test_a_kept_count_is_the_one_that_is_read() -> None:
    counts = RequestCounts()
    kept = counts.of(0, 9)
    kept.value += 2
    counts.of(0, 9).value += 1
    counts.of(1, 13).value += 1
    assert dict(counts) == {(0, 9): 3, (1, 13): 1}
    assert sorted(counts.items()) == [((0, 9), 3), ((1, 13), 1)]
    assert len(counts) == 2


def test_what_never_came_is_not_listed() -> None:
    assert dict(RequestCounts()) == {}
