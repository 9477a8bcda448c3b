"""Burrow's rules: its cases, told with offsets and times of our own, and what holds for any window."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.services.lag.verdicts import Commit, Verdict, judge


def window(
    offsets: list[int], lags: list[int | None], *, first_s: int = 100, step_s: int = 100
) -> list[Commit]:
    """Commits at even distances."""
    return [
        Commit(offset, (first_s + step_s * index) * 1000, 0, lag)
        for index, (offset, lag) in enumerate(zip(offsets, lags, strict=True))
    ]


MOVES = [10, 20, 30, 40, 50]
STANDS = [10, 10, 10, 10, 10]
QUICK = {"first_s": 1000, "step_s": 1}

OK, WARN, STOP, STALL, REWIND = Verdict.OK, Verdict.WARN, Verdict.STOP, Verdict.STALL, Verdict.REWIND
w = window
CASES = [
    ("lag was 0 once, and grows since", w(MOVES, [0, 5, 10, 15, 20]), [70], 20, 600, OK),
    ("the pause is as long as the window", w(MOVES, [0, 5, 10, 15, 20]), [70], 20, 900, OK),
    ("the pause is longer", w(MOVES, [0, 5, 10, 15, 20]), [70], 20, 901, STOP),
    ("stopped, and never at the end", w(MOVES, [5, 10, 15, 20, 25]), [75], 25, 1000, STOP),
    ("stands, but was at the end once", w(STANDS, [0, 5, 10, 15, 20]), [30], 20, 600, OK),
    ("stands while the lag grows", w(STANDS, [10, 15, 20, 25, 30]), [40], 30, 600, STALL),
    ("stands at an even lag", w(STANDS, [10] * 5), [20], 10, 600, STALL),
    ("went back and came back", w([10, 20, 30, 20, 40], [10, 15, 20, 125, 30]), [70], 30, 600, OK),
    ("went back and stays behind", w([10, 20, 30, 12, 20], [10, 15, 20, 90, 85]), [105], 85, 600, REWIND),
    ("went back to the beginning", w([90, 95, 100, 0, 10], [0, 0, 0, 100, 95]), [105], 95, 600, REWIND),
    ("no lag now, whatever was", w(MOVES, [5, 10, 15, 20, 25]), [75], 0, 5000, OK),
    ("new records behind a consumer", w(MOVES, [0] * 5, **QUICK), [99, 90, 80], 49, 1030, STOP),
    ("it was at the end a moment ago", w(MOVES, [0] * 5, **QUICK), [50, 50, 51], 1, 1030, OK),
    ("lags that are not known change nothing", w(MOVES, [0, None, 10, None, 20]), [70], 20, 600, OK),
    ("moves, and the lag never falls", w(MOVES, [5, 5, 10, 20, 25]), [75], 25, 600, WARN),
    ("moves, and the lag fell once", w(MOVES, [5, 10, 8, 20, 25]), [75], 25, 600, OK),
]  # fmt: skip


@pytest.mark.parametrize(("what", "commits", "ends", "lag", "now_s", "wanted"), CASES)
def test_a_case_of_burrow(
    what: str, commits: list[Commit], ends: list[int], lag: int, now_s: int, wanted: Verdict
) -> None:
    assert judge(commits, ends, lag, now_s * 1000) is wanted, what


def test_what_is_allowed_counts_as_no_lag() -> None:
    commits = window(STANDS, [30, 30, 30, 30, 30])
    assert judge(commits, [40], 30, 600_000, allowed_lag=29) is Verdict.STALL
    assert judge(commits, [40], 30, 600_000, allowed_lag=30) is Verdict.OK


def test_a_pause_of_seconds_is_no_stop_however_close_the_commits_are() -> None:
    commits = window(MOVES, [5] * 5, first_s=1000, step_s=0)
    assert judge(commits, [99], 49, 1_002_000, stop_after_ms=60_000) is not Verdict.STOP
    assert judge(commits, [99], 49, 1_060_000, stop_after_ms=60_000) is Verdict.STOP


@given(
    offsets=st.lists(st.integers(0, 1000), min_size=1, max_size=12),
    lags=st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=12, max_size=12),
    lag=st.integers(0, 50),
    pause_s=st.integers(0, 5000),
)
def test_each_verdict_means_what_it_says(
    offsets: list[int], lags: list[int | None], lag: int, pause_s: int
) -> None:
    commits = window(offsets, lags[: len(offsets)])
    now_ms = commits[-1].timestamp_ms + pause_s * 1000
    verdict = judge(commits, [offsets[-1] + lag], lag, now_ms)
    length_ms = commits[-1].timestamp_ms - commits[0].timestamp_ms
    if verdict is Verdict.STOP:
        assert lag > 0
        assert pause_s * 1000 > length_ms
    elif lag and pause_s * 1000 <= length_ms:
        known = [each.lag for each in commits if each.lag is not None]
        fell = any(after < before for before, after in pairwise(offsets))
        if verdict is Verdict.REWIND:
            assert fell
        if verdict is Verdict.STALL:
            assert len(set(offsets)) == 1
        if verdict is Verdict.WARN:
            assert known == sorted(known)
            assert 0 not in known
    elif not lag:
        assert verdict is Verdict.OK
