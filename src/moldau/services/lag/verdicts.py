"""What the last commits of a partition say about its consumer: Burrow's rules, as pure functions.

    lag now <= allowed                     OK, whatever was before
    no commit for longer than the window   STOP    unless the consumer was at the end a moment ago
    offset fell and has not come back      REWIND
    lag was within what is allowed once    OK      during the window
    offsets all equal                      STALL   it commits, and does not move
    lag never fell                         WARN    it moves, and does not gain
    else                                   OK

Source: Burrow's wiki (Consumer Lag Evaluation Rules) and its evaluator. Times are milliseconds since 1970.
Not here: which commits are in the window (window.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Verdict(IntEnum):
    """By Burrow's numbers, which its metric shows; a group's is that of its worst partition, ERR at most."""

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


class Commit(NamedTuple):
    """One committed offset."""

    offset: int
    timestamp_ms: int
    """When it was committed, by the coordinator's clock."""
    observed_ms: int
    """When this process read it."""
    lag: int | None
    """Records behind the end at that time; None: the end was not known then."""


def judge(
    commits: Sequence[Commit],
    ends: Sequence[int],
    lag: int,
    now_ms: int,
    *,
    allowed_lag: int = 0,
    stop_after_ms: int = 0,
) -> Verdict:
    """The verdict on a partition: commits from old to new, the log's last known end offsets, the lag now.

    `stop_after_ms`: a pause shorter than this is no STOP, however close together the commits before it were
    (Burrow: 0, and the false alarms that its users complain of).
    """
    if lag <= allowed_lag or not commits:
        return Verdict.OK
    paused = now_ms - commits[-1].timestamp_ms >= stop_after_ms
    if paused and has_stopped(commits, now_ms) and not was_at_the_end(commits, ends):
        return Verdict.STOP
    if is_rewound(commits):
        return Verdict.REWIND
    if any(each.lag is not None and each.lag <= allowed_lag for each in commits):
        return Verdict.OK
    if all(each.offset == commits[0].offset for each in commits):
        return Verdict.STALL
    if never_gained(commits):
        return Verdict.WARN
    return Verdict.OK


def has_stopped(commits: Sequence[Commit], now_ms: int) -> bool:
    """Whether the last commit is longer ago than the window is long."""
    first, last = commits[0].timestamp_ms, commits[-1].timestamp_ms
    return now_ms - last > last - first


def was_at_the_end(commits: Sequence[Commit], ends: Sequence[int]) -> bool:
    """Whether the last commit was at or behind one of the end offsets of the last minutes."""
    return any(end <= commits[-1].offset for end in ends)


def is_rewound(commits: Sequence[Commit]) -> bool:
    """Whether an offset fell, and none after it has reached what was committed before."""
    for at in range(len(commits) - 1, 0, -1):
        before = commits[at - 1].offset
        if commits[at].offset < before:
            return all(each.offset < before for each in commits[at:])
    return False


def never_gained(commits: Sequence[Commit]) -> bool:
    """Whether the lag fell from no commit to the next; commits without a known lag are passed over."""
    lags = [each.lag for each in commits if each.lag is not None]
    return all(later >= earlier for earlier, later in itertools.pairwise(lags))
