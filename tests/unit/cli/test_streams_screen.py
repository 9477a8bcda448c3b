"""The live table fits the terminal, and lines say only what is new."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rich")

from rich.console import Console

from moldau.streams.progress import FlowNumbers
from moldau.tools.commands.streams.screen import StreamsScreen, table_of

LONG = "delay_by_carrier_and_hour_with_the_weather_joined_to_it"


def flow(name: str, **numbers: Any) -> Any:
    return SimpleNamespace(
        flow=SimpleNamespace(name=name), state="running", numbers=FlowNumbers(**numbers), reason=""
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_numbers_are_never_cut(width: int) -> None:
    runner: Any = SimpleNamespace(
        flows=[
            flow("late", rows_in=336_776, batch_id=1_234_567, rows_out=9_712, batch_ms=143, lag=1_500_000),
            flow(LONG),
        ]
    )
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(table_of(runner, width))
    lines = captured.get().splitlines()
    assert len(lines) == 4, "a row is a line"
    assert max(map(len, lines)) <= width
    assert "running" in lines[2]
    assert "1,500,000" in lines[2]
    assert "336,776" in lines[2] or width < 60
    assert ("1,234,567" in lines[2]) == (width >= 80)
    assert "…" not in lines[2]
    assert lines[3].startswith(LONG[:15])


def test_lines_say_only_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = flow("one"), flow("two")
    runner: Any = SimpleNamespace(flows=[one, two])
    with StreamsScreen() as screen:
        screen.show(runner)
        screen.show(runner)
        assert capsys.readouterr().out == "one running\ntwo running\n"
        one.state = "done"
        screen.show(runner)
        assert capsys.readouterr().out == "one done\n"
        two.numbers = FlowNumbers(rows_in=1)
        screen.show(runner)
        assert capsys.readouterr().out == "", "not twice in five seconds"
