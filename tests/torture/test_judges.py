"""The judges can fail: each is shown ledgers and readings in which one promise is broken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torture import round_pipeline
from torture.judge_acknowledged import judge_acknowledged
from torture.judge_compaction import judge_latest
from torture.judge_loop import judge_offsets, judge_output
from torture.judge_pipeline import expected_results, judge_results
from torture.judge_transactions import differences, judge
from torture.kills import BROKER, CLIENT, Kill, Stuck, carry_out, schedule
from torture.ledger import (
    ABORTED,
    COMMITTED,
    IDEMPOTENT,
    TOMBSTONE,
    TRANSACTION,
    UNKNOWN,
    Attempt,
    Entry,
    Ledger,
    read_ledger,
    value_of,
)
from torture.offsets_load import expected, judge_groups
from torture.reading import Seen
from torture.round_pipeline import AWAY, EXECUTOR, PYTHON, PipelineSize
from torture.seeds import generator
from torture.spark_checkpoints import Checkpoints, until
from torture.spark_driver import TOO_SLOW, TORN_TASK, SparkDriver
from torture.worker import transformed

ENTRIES = [Entry("left", 0, "a", 40), Entry("right", 1, "b", 30), Entry("left", 0, "c", 50)]


def attempt(number: int, outcome: str | None, commit: bool | None = True, mode: str = TRANSACTION) -> Attempt:
    offsets: list[int | None] = [10 * number, 10 * number, 10 * number + 1]
    return Attempt("t0", number, mode, ENTRIES, commit, outcome, offsets if outcome else [])


def records(number: int) -> list[Seen]:
    """The records of an attempt as they should be found."""
    at = (10 * number, 10 * number, 10 * number + 1)
    return [
        Seen(one.topic, one.partition, at[i], one.key.encode(), value_of("t0", number, i, one.size_bytes))
        for i, one in enumerate(ENTRIES)
    ]


@pytest.mark.parametrize(
    ("attempts", "seen"),
    [
        ([attempt(0, COMMITTED), attempt(1, COMMITTED)], records(0) + records(1)),
        ([attempt(0, COMMITTED), attempt(1, ABORTED, False)], records(0)),
        ([attempt(0, UNKNOWN)], records(0)),
        ([attempt(0, UNKNOWN)], []),
        ([attempt(0, None)], records(0)),
        ([attempt(0, None, None)], []),
        ([attempt(0, COMMITTED, None, IDEMPOTENT)], records(0)),
        ([attempt(0, None, None, IDEMPOTENT)], records(0)[:2]),
    ],
)
def test_what_was_promised_passes(attempts: list[Attempt], seen: list[Seen]) -> None:
    assert judge(attempts, seen) == []


@pytest.mark.parametrize(
    ("attempts", "seen", "complaint"),
    [
        ([attempt(0, COMMITTED)], [], "lost"),
        ([attempt(0, COMMITTED)], records(0)[:2], "lost"),
        ([attempt(0, COMMITTED)], records(0)[1:], "half"),
        ([attempt(0, COMMITTED)], records(0) + records(0)[:1], "twice"),
        ([attempt(0, COMMITTED)], [records(0)[0]._replace(offset=7), *records(0)[1:]], "moved"),
        ([attempt(0, COMMITTED)], [records(0)[0]._replace(partition=1), *records(0)[1:]], "nobody wrote"),
        ([attempt(0, COMMITTED)], [records(0)[0]._replace(key=b"b"), *records(0)[1:]], "nobody wrote"),
        (
            [attempt(0, COMMITTED)],
            [records(0)[0]._replace(value=b"t0|0|0|x"), *records(0)[1:]],
            "nobody wrote",
        ),
        ([attempt(0, COMMITTED)], [*records(0), Seen("left", 0, 99, b"k", None)], "nobody wrote"),
        ([attempt(0, ABORTED, False)], records(0), "aborted and yet seen"),
        ([attempt(0, None, None)], records(0), "aborted and yet seen"),
        ([attempt(0, None, False)], records(0), "aborted and yet seen"),
        ([attempt(0, UNKNOWN)], records(0)[:1], "half"),
        ([attempt(0, None)], records(0)[:1], "half"),
        ([attempt(0, COMMITTED), attempt(1, COMMITTED)], records(1) + records(0), "order"),
        ([attempt(0, COMMITTED, None, IDEMPOTENT)], records(0)[:2], "lost"),
    ],
)
def test_a_broken_promise_is_named(attempts: list[Attempt], seen: list[Seen], complaint: str) -> None:
    assert any(complaint in one for one in judge(attempts, seen)), judge(attempts, seen)


def test_two_readings_are_compared_record_by_record() -> None:
    assert differences("two", records(0), records(0)) == []
    assert differences("two", records(0), records(0)[:2])
    assert differences("two", records(0), [*records(0)[:2], records(0)[2]._replace(value=b"x")])
    assert any("twice" in one for one in differences("two", records(0), records(0) * 2))
    assert any("after a higher" in one for one in differences("two", records(0), records(0)[::-1]))


def test_a_copy_is_neither_missing_nor_double_nor_invented() -> None:
    values = [b"0", b"1"]
    out = [Seen("out", 0, i, value, transformed(value)) for i, value in enumerate(values)]
    assert judge_output(values, transformed, out) == []
    assert "lost" in judge_output(values, transformed, out[:1])[0]
    assert "2 times" in judge_output(values, transformed, out + out[:1])[0]
    assert "nobody" in judge_output(values, transformed, [*out, out[0]._replace(value=b"0|")])[0]
    assert judge_offsets({("in", 0): 2}, {("in", 0): 2}) == []
    assert judge_offsets({("in", 0): 1}, {("in", 0): 2})
    assert judge_offsets({}, {("in", 0): 2})


def test_acknowledged_numbers_are_neither_lost_nor_moved_nor_double_nor_disordered() -> None:
    seen = [Seen("first", 0, offset, None, b"%d" % offset) for offset in range(4)]
    acknowledged = {number: number for number in range(3)}  # the last was written, and its answer lost
    assert judge_acknowledged(acknowledged, seen) == []
    assert "lost or moved: 1 of 3" in judge_acknowledged(acknowledged, seen[1:])[0]
    assert "lost or moved" in judge_acknowledged({0: 1}, seen)[0]
    assert "twice: [0]" in judge_acknowledged({}, [*seen[:1], seen[0]._replace(offset=1)])[0]
    assert "order" in judge_acknowledged({}, [seen[1]._replace(offset=0), seen[0]._replace(offset=1)])[0]


def keyed(number: int, outcome: str | None, *sizes: int, commit: bool | None = True) -> Attempt:
    """An attempt that writes key k once for each size."""
    entries = [Entry("map", 0, "k", size) for size in sizes]
    offsets: list[int | None] = [number * 10 + i for i in range(len(sizes))]
    return Attempt("c0", number, TRANSACTION, entries, commit, outcome, offsets)


def found(number: int, index: int, size: int) -> Seen:
    return Seen("map", 0, number * 10 + index, b"k", value_of("c0", number, index, size))


@pytest.mark.parametrize(
    ("attempts", "seen", "tombstones_stay", "complaint"),
    [
        ([keyed(0, COMMITTED, 20, 30)], [found(0, 1, 30)], True, None),
        ([keyed(0, COMMITTED, 20), keyed(1, ABORTED, 30)], [found(0, 0, 20)], True, None),
        ([keyed(0, COMMITTED, 20), keyed(1, None, 30)], [found(0, 0, 20)], True, None),
        ([keyed(0, COMMITTED, 20), keyed(1, None, 30)], [found(1, 0, 30)], True, None),
        ([keyed(0, COMMITTED, 20, TOMBSTONE)], [found(0, 1, TOMBSTONE)], True, None),
        ([keyed(0, COMMITTED, 20, TOMBSTONE)], [], False, None),
        ([keyed(0, COMMITTED, 20, TOMBSTONE)], [], True, "tombstone"),
        ([keyed(0, COMMITTED, 20, TOMBSTONE)], [found(0, 0, 20)], False, "latest"),
        ([keyed(0, COMMITTED, 20, 30)], [found(0, 0, 20)], True, "latest"),
        ([keyed(0, COMMITTED, 20, 30)], [], True, "latest"),
        ([keyed(0, COMMITTED, 20), keyed(1, ABORTED, 30)], [found(1, 0, 30)], True, "aborted"),
        ([keyed(0, COMMITTED, 20)], [found(0, 0, 20)._replace(offset=3)], True, "moved"),
        ([keyed(0, COMMITTED, 20)], [found(0, 0, 20), found(0, 0, 20)._replace(offset=3)], True, "twice"),
        ([keyed(0, COMMITTED, 20)], [found(0, 0, 20)._replace(value=b"c0|0|0|y")], True, "nobody wrote"),
        ([keyed(0, COMMITTED, 20)], [found(0, 0, 20)._replace(offset=3, value=None)], True, "nobody wrote"),
    ],
)
def test_the_latest_value_of_each_key_survives(
    attempts: list[Attempt], seen: list[Seen], tombstones_stay: bool, complaint: str | None
) -> None:
    complaints = judge_latest(attempts, seen, tombstones_stay=tombstones_stay)
    if complaint is None:
        assert complaints == []
    else:
        assert any(complaint in one for one in complaints), complaints


def test_a_group_stands_where_it_was_put(tmp_path: Path) -> None:
    path = tmp_path / "o"
    path.write_text(
        '{"ask": ["a", 1]}\n{"told": ["a", 1]}\n{"ask": ["a", 4]}\n{"ask": ["b", 2]}\n{"told": ["b", 2]}\n'
    )
    wanted = expected(path)
    assert judge_groups(wanted, {"a": 1, "b": 2}) == judge_groups(wanted, {"a": 4, "b": 2}) == []
    assert "a stands at 0" in judge_groups(wanted, {"a": 0, "b": 2})[0]
    assert "b stands at -1" in judge_groups(wanted, {"a": 1})[0]


def test_a_ledger_survives_its_writer(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "t0")
    for number in range(3):
        ledger.begin(number, TRANSACTION, ENTRIES)
    ledger.decide(1, True)
    ledger.decide(2, True)
    ledger.told(2, COMMITTED, [5, 6, 7])
    with (tmp_path / "t0").open("ab") as file:
        file.write(b'{"told": 1, "outc')  # killed in the middle of a line
    first, second, third = read_ledger("t0", tmp_path / "t0")
    assert [one.fate(0) for one in (first, second, third)] == [ABORTED, UNKNOWN, COMMITTED]
    assert third.offset(2) == 7
    assert third.records == ENTRIES


def test_a_schedule_follows_from_its_seed() -> None:
    one, two, other = (schedule(generator(s, "k"), 6, 100, {BROKER: 1, CLIENT: 1}) for s in (1, 1, 2))
    assert one == two != other
    assert one[0].who == BROKER
    assert all(5 <= kill.at < 90 for kill in one)


def test_kills_come_at_their_moment_and_a_standstill_is_noticed() -> None:
    steps = iter(range(100))
    now = 0

    def progress() -> int:
        nonlocal now
        now = next(steps)
        return now

    struck: list[tuple[int, int]] = []
    plan = [Kill(at, BROKER, 0.5) for at in (3, 3, 8)]
    assert carry_out(plan, progress, lambda kill: struck.append((kill.at, now)), lambda: now > 20) == 3
    assert struck == [(3, 3), (3, 4), (8, 8)]
    with pytest.raises(Stuck):
        carry_out([], lambda: 5, lambda kill: None, lambda: False, stuck_after_s=0.02)


def pipeline_results() -> list[Seen]:
    """What a right pipeline makes of the numbers 0 to 99 and 500, with a watermark at 150."""
    squares = [b'{"n":%d,"square":%d}' % (number, number * number) for number in [*range(100), 500]]
    windows = [b'{"start":0,"count":50,"sum":1225}', b'{"start":50,"count":50,"sum":3725}']
    return [
        Seen(topic, 0, offset, None, value)
        for topic, values in (("squares", squares), ("windows", windows))
        for offset, value in enumerate(values)
    ]


def test_pipeline_that_is_right() -> None:
    expected = expected_results([*range(100), 500], 150)
    assert judge_results(expected, pipeline_results()) == []


@pytest.mark.parametrize(
    ("topic", "value", "complaint"),
    [
        ("squares", b'{"n":7,"square":49}', "squares: (7, 49) is there 2 times, at 0@7, 0@900"),
        ("squares", b'{"n":8,"square":49}', "squares: (8, 49) at 0@900 is no result of what was put in"),
        (
            "windows",
            b'{"start":50,"count":49,"sum":3700}',
            "windows: (50, 49, 3700) at 0@900 is no result of what was put in",
        ),
    ],
)
def test_pipeline_that_says_too_much(topic: str, value: bytes, complaint: str) -> None:
    seen = [*pipeline_results(), Seen(topic, 0, 900, None, value)]
    assert judge_results(expected_results([*range(100), 500], 150), seen) == [complaint]


def test_pipeline_that_promises_no_more_than_at_least_once() -> None:
    expected = expected_results([*range(100), 500], 150)
    again = [*pipeline_results(), Seen("squares", 0, 900, None, b'{"n":7,"square":49}')]
    assert judge_results(expected, again, once=False) == []
    wrong = [*again[1:], Seen("squares", 0, 901, None, b'{"n":8,"square":49}')]
    assert len(judge_results(expected, wrong, once=False)) == 2, "one is missing, one is wrong"


def test_pipeline_that_loses_a_window() -> None:
    complaints = judge_results(expected_results([*range(100), 500], 150), pipeline_results()[:-1])
    assert complaints == ["windows: (50, 50, 3725) is missing"]


def test_schedule_of_a_pipeline_has_who_must_be_killed() -> None:
    size = PipelineSize(2000, 5, (EXECUTOR, PYTHON))
    long = PipelineSize(2000, 30, (PYTHON, AWAY))
    for seed in range(20):
        plan = round_pipeline.schedule(generator(seed, "kills"), size)
        assert {BROKER, round_pipeline.DRIVER, EXECUTOR, PYTHON} <= {kill.who for kill in plan}
        assert len(plan) == 5
        assert [kill.at for kill in plan] == sorted(kill.at for kill in plan)
        assert all(100 <= kill.at < 1800 for kill in plan)
        minutes = [
            kill for kill in round_pipeline.schedule(generator(seed, "kills"), long) if kill.who == AWAY
        ]
        assert len(minutes) == 1


def test_batch_that_is_forgotten_is_the_last_one_of_a_query_at_rest(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for query, begun, done in (("resting", 3, 3), ("working", 4, 3), ("new", 0, -1)):
        for kind, last in (("offsets", begun), ("commits", done)):
            (tmp_path / query / kind).mkdir(parents=True)
            for number in range(last + 1):
                (tmp_path / query / kind / str(number)).touch()
    assert checkpoints.any_at_rest()
    assert not checkpoints.at_rest()
    assert checkpoints.forget_last_commits() == {tmp_path / "resting": 3}
    assert sorted(path.name for path in (tmp_path / "resting" / "commits").iterdir()) == ["0", "1", "2"]
    assert len(list((tmp_path / "working" / "commits").iterdir())) == 4
    assert not checkpoints.have({tmp_path / "resting": 3})
    assert not checkpoints.any_at_rest()


def test_driver_on_a_machine_that_is_too_busy_is_known_by_its_last_life(tmp_path: Path) -> None:
    says = tmp_path / "says"
    driver = SparkDriver("driver", ["cat", str(says)], tmp_path, {"PATH": os.defpath})
    found = []
    (tmp_path / "spark.log").write_bytes(b"Lost task 0.3: " + TORN_TASK)
    torn = b"app torture: 2 flows, whose messages go to " + os.fsencode(tmp_path / "spark.log")
    for text in (TOO_SLOW, b"something else", torn):
        says.write_bytes(text)
        driver.start()
        assert until(lambda: not driver.running(), 20)
        found.append(driver.too_slow())
    assert found == [True, False, True]
