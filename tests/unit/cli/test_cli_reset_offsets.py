"""reset-offsets: exactly one target, offsets within bounds, plans that survive a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.tools.commands.groups.reset_offsets import choose_target, planned_offset, read_plan, write_plan
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.offset_range import Bound

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"to_earliest": True}, Bound("start")),
        ({"to_latest": True}, Bound("end")),
        ({"to_current": True}, Bound("current")),
        ({"to_offset": 0}, Bound("offset", 0)),
        ({"shift_by": -3}, Bound("shift", -3)),
        ({"to_datetime": "2023-11-14T22:13:20.000"}, Bound("moment", NOW_MS)),
        ({"by_duration": "PT1H"}, Bound("moment", NOW_MS - 3_600_000)),
        ({"from_file": True}, Bound("file")),
    ],
)
def test_one_target_is_chosen(given: dict[str, Any], expected: Bound) -> None:
    assert choose_target(**given, now_ms=NOW_MS) == expected


@pytest.mark.parametrize(
    "given", [{}, {"to_earliest": True, "to_latest": True}, {"to_offset": 1, "shift_by": 1}]
)
def test_none_or_two_targets_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="exactly one target"):
        choose_target(**given, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("target", "wanted", "committed", "expected"),
    [
        (Bound("start"), 0, 50, 10),
        (Bound("end"), 0, 50, 100),
        (Bound("current"), 0, 50, 50),
        (Bound("current"), 0, None, 100),
        (Bound("current"), 0, 5, 10),
        (Bound("offset", 70), 70, None, 70),
        (Bound("offset", 700), 700, None, 100),
        (Bound("offset", 0), 0, None, 10),
        (Bound("shift", -30), 0, 50, 20),
        (Bound("shift", -300), 0, 50, 10),
        (Bound("shift", 300), 0, 50, 100),
        (Bound("moment", 1), 60, 50, 60),
        (Bound("file"), 61, 50, 61),
    ],
)
def test_the_plan_stays_within_the_partition(
    target: Bound, wanted: int, committed: int | None, expected: int
) -> None:
    assert planned_offset(target, wanted, committed, low=10, high=100)[1] == expected


def test_what_was_asked_for_is_told_beside_what_is_taken() -> None:
    assert planned_offset(Bound("offset", -5), -5, 50, low=10, high=100) == (-5, 10)
    assert planned_offset(Bound("offset", 20), 20, 50, low=10, high=100) == (20, 20)


def test_a_shift_needs_a_committed_offset() -> None:
    with pytest.raises(CommandError, match="--shift-by"):
        planned_offset(Bound("shift", 1), 0, None, 0, 10)


@pytest.mark.parametrize("groups", [["one"], ["one", "two"]])
def test_an_exported_plan_is_read_back(
    groups: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"group": group, "topic": "orders", "partition": index, "new_offset": 10 * index}
        for group in groups
        for index in range(3)
    ]
    write_plan(rows, with_group=len(groups) > 1)
    path = tmp_path / "plan.csv"
    path.write_text(capsys.readouterr().out)
    assert read_plan(path, groups) == {
        group: {("orders", index): 10 * index for index in range(3)} for group in groups
    }


@pytest.mark.parametrize("content", ["orders,0\n", "orders,x,1\n", "a,b,0,1,2\n"])
def test_a_damaged_plan_names_the_line(content: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("orders,0,5\n" + content)
    with pytest.raises(CommandError, match="line 2"):
        read_plan(path, ["one"])


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot read"):
        read_plan(tmp_path / "none.csv", ["one"])
