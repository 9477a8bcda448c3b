"""Which log is cleaned next, and how far: a table."""

from typing import Any

import pytest

from moldau.broker.log.compaction.selection import ClosedSegment, LogFacts, Range, dirtiest, examine
from moldau.common.settings.topic import TopicSettings

NOW_MS = 1_000_000


def facts(*, checkpoint: int | None = None, **changes: Any) -> LogFacts:
    """Three closed segments of 100 offsets and 1000 bytes, an open one from 300 on, all of it committed."""
    settings = {name: changes.pop(name) for name in list(changes) if name in TopicSettings.__slots__}
    closed = [ClosedSegment(base, base + 100, 1000, base + 1000, base + 1000) for base in (0, 100, 200)]
    found: dict[str, Any] = {
        "settings": TopicSettings(**{"cleanup_policy": ("compact",), **settings}),
        "closed": closed,
        "log_start_offset": 0,
        "log_end_offset": 350,
        "last_stable_offset": 350,
        "recovery_point": 350,
        "checkpoint": checkpoint,
    }
    return LogFacts(**{**found, **changes})


@pytest.mark.parametrize(
    ("log", "first_dirty", "first_uncleanable", "dirty_ratio", "due"),
    [
        pytest.param(facts(), 0, 300, 1.0, True, id="never cleaned"),
        pytest.param(facts(checkpoint=300), 300, 300, 0.0, False, id="all clean"),
        pytest.param(facts(checkpoint=100), 100, 300, 2 / 3, True, id="a third clean"),
        pytest.param(facts(checkpoint=200), 200, 300, 1 / 3, False, id="below the ratio"),
        pytest.param(
            facts(checkpoint=200, min_cleanable_dirty_ratio=0.3), 200, 300, 1 / 3, True, id="its own ratio"
        ),
        pytest.param(
            facts(checkpoint=100, min_cleanable_dirty_ratio=2 / 3), 100, 300, 2 / 3, False, id="not above"
        ),
        pytest.param(facts(checkpoint=150), 150, 300, 2 / 3, True, id="in the middle of a segment"),
        pytest.param(facts(last_stable_offset=250), 0, 200, 1.0, True, id="an open transaction at 250"),
        pytest.param(facts(last_stable_offset=50), 0, 0, 0.0, False, id="nothing is decided"),
        pytest.param(facts(recovery_point=199), 0, 100, 1.0, True, id="not yet on the disk"),
        pytest.param(facts(checkpoint=300, last_stable_offset=100), 300, 300, 0.0, False, id="fell back"),
        pytest.param(
            facts(min_compaction_lag_ms=NOW_MS - 1100), 0, 200, 1.0, True, id="the third is too young"
        ),
        pytest.param(
            facts(checkpoint=100, min_compaction_lag_ms=NOW_MS), 100, 100, 0.0, False, id="all too young"
        ),
        pytest.param(
            facts(checkpoint=100, min_compaction_lag_ms=NOW_MS - 1100, min_cleanable_dirty_ratio=0.0),
            100,
            200,
            0.5,
            True,
            id="age does not matter below the first dirty offset",
        ),
        pytest.param(facts(cleanup_policy=("delete",)), 0, 300, 1.0, False, id="not compacted"),
        pytest.param(facts(cleanup_policy=("compact", "delete")), 0, 300, 1.0, True, id="both policies"),
        pytest.param(facts(closed=[]), 0, 0, 0.0, False, id="only the open segment"),
        pytest.param(facts(log_start_offset=120), 120, 300, 2 / 3, True, id="records deleted, never cleaned"),
    ],
)
def test_how_far_a_log_can_be_cleaned(
    log: LogFacts, first_dirty: int, first_uncleanable: int, dirty_ratio: float, due: bool
) -> None:
    found = examine(log, NOW_MS)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (first_dirty, first_uncleanable)
    assert found.dirty_ratio == pytest.approx(dirty_ratio)
    assert (found.due, found.checkpoint_is_wrong) == (due, False)


@pytest.mark.parametrize(
    ("log", "first_dirty"),
    [
        (facts(checkpoint=50, log_start_offset=100), 100),
        (facts(checkpoint=351), 0),
    ],
    ids=["below the log", "behind its end"],
)
def test_a_checkpoint_outside_the_log_is_reset(log: LogFacts, first_dirty: int) -> None:
    found = examine(log, NOW_MS)
    assert (found.first_dirty_offset, found.checkpoint_is_wrong) == (first_dirty, True)


@pytest.mark.parametrize(
    ("max_lag_ms", "overdue_ms", "due"),
    [(NOW_MS, 0, False), (NOW_MS - 1200, 0, False), (NOW_MS - 1300, 100, True)],
    ids=["in time", "just in time", "overdue"],
)
def test_a_record_that_is_too_old_makes_a_log_due(max_lag_ms: int, overdue_ms: int, due: bool) -> None:
    found = examine(facts(checkpoint=200, max_compaction_lag_ms=max_lag_ms), NOW_MS)
    assert (found.overdue_ms, found.due) == (overdue_ms, due)


def test_what_is_overdue_but_not_cleanable_waits() -> None:
    found = examine(facts(checkpoint=200, max_compaction_lag_ms=1, last_stable_offset=210), NOW_MS)
    assert found.overdue_ms > 0
    assert not found.due


def test_the_dirtiest_comes_first() -> None:
    def of(clean: int, dirty: int, *, due: bool = True) -> Range:
        return Range(0, 100, False, clean, dirty, 0, due)

    best = of(100, 300)
    assert dirtiest([of(100, 200), best, of(0, 500, due=False), of(1000, 2000)]) is best
    assert dirtiest([of(0, 1, due=False)]) is None
    assert dirtiest([]) is None
