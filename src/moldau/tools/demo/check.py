"""The demo's expected results, computed by pandas from the source tables, and their comparison with the
output topics.

Independent of the flows and the producer: pandas reads the package's own files, not the topics. Delays are
whole minutes, so sums are exact and means do not depend on the order of adding; values are compared for
equality, without a tolerance.

Checked for the hours: each hour of each airport is in its topic exactly once, its record key matches it, and
flights, mean delay and joined weather are right. Checked for the airlines: the last row of each is right, and
its counts only increase, so no older state overwrote a newer one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from moldau.tools.demo.flights import FLIGHTS_FILE, WEATHER_FILE, find_table, older_count

if TYPE_CHECKING:
    from pandas import DataFrame

WEATHER_COLUMNS = ("temp", "wind_speed", "precip", "visib")
SHOWN_MAX = 5

Row = Mapping[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Expected:
    """What pandas computed: rows by key."""

    hours: Mapping[Key, Row]
    carriers: Mapping[Key, Row]
    flight_count: int


@dataclass(frozen=True)
class Written:
    """A record of an output topic: its key, and its value (None: a tombstone)."""

    key: Any
    value: Row | None


def computed_by_pandas(flight_count: int) -> Expected:
    """The expected results for the first `flight_count` departures."""
    import pandas

    flights = pandas.read_csv(find_table(FLIGHTS_FILE), usecols=_COLUMNS_READ)
    scheduled = pandas.to_datetime(flights["time_hour"]) + pandas.to_timedelta(flights["minute"], unit="min")
    left = scheduled + pandas.to_timedelta(flights["dep_delay"].fillna(0), unit="min")
    flights = flights.loc[left.sort_values(kind="stable").index[:flight_count]]
    # The first half is written with a schema that has no distance, for which the newer one says 0.
    flights["miles"] = flights["distance"].where(
        pandas.Series(range(len(flights)), flights.index) >= older_count(len(flights)), 0
    )
    weather = pandas.read_csv(
        find_table(WEATHER_FILE),
        usecols=["origin", "time_hour", *WEATHER_COLUMNS],
        float_precision="round_trip",  # else the last digit may be wrong
    )

    by_hour = flights.groupby(["origin", "time_hour"], as_index=False)["dep_delay"].agg(
        flights="size", departed="count", delay="mean"
    )
    hours = by_hour.merge(weather, on=["origin", "time_hour"], how="left", validate="one_to_one")
    carriers = flights.groupby("carrier", as_index=False)["dep_delay"].agg(
        flights="size", departed="count", delay="mean", longest="max"
    )
    miles = flights.groupby("carrier", as_index=False)["miles"].sum()
    carriers = carriers.merge(miles, on="carrier", validate="one_to_one")
    return Expected(_by_key(hours, "origin", "time_hour"), _by_key(carriers, "carrier"), len(flights))


_COLUMNS_READ = ["carrier", "origin", "time_hour", "minute", "dep_delay", "distance"]


def _by_key(table: DataFrame, *key: str) -> dict[Key, Row]:
    rows = table.to_dict(orient="records")
    return {
        tuple(str(row[name]) for name in key): {str(name): value for name, value in row.items()}
        for row in rows
    }


def faults(expected: Expected, hours: Sequence[Written], carriers: Sequence[Written]) -> list[str]:
    """The differences between the output topics and what is expected; empty if there are none."""
    return [*_hour_faults(expected, hours), *_carrier_faults(expected, carriers)]


def _hour_faults(expected: Expected, written: Sequence[Written]) -> list[str]:
    rows: dict[Key, Row] = {}
    found = []
    times: Counter[Key] = Counter()
    for each in written:
        if each.value is None:
            found.append(f"delays-by-hour: a record without a value, key {each.key}")
            continue
        key = hour_key(each.value)
        times[key] += 1
        rows[key] = each.value
        if not isinstance(each.key, Mapping) or hour_key(each.key) != key:
            found.append(f"delays-by-hour: the key {each.key} belongs to the row of {' '.join(key)}")
    found += [f"delays-by-hour: {' '.join(key)} stands there {n} times" for key, n in times.items() if n > 1]
    return [*found[:SHOWN_MAX], *_differences("delays-by-hour", expected.hours, rows)]


def _carrier_faults(expected: Expected, written: Sequence[Written]) -> list[str]:
    rows: dict[Key, Row] = {}
    found = []
    for each in written:
        key = (str(each.key),)
        before = rows.get(key)
        if each.value is None or each.value.get("carrier") != each.key:
            found.append(f"delays-by-carrier: the key {each.key} stands before {each.value}")
        elif before is not None and each.value["flights"] <= before["flights"]:
            then, now = before["flights"], each.value["flights"]
            found.append(f"delays-by-carrier: {each.key} had {then} flights, and then {now}")
        if each.value is not None:
            rows[key] = each.value
    return [*found[:SHOWN_MAX], *_differences("delays-by-carrier", expected.carriers, rows)]


def hour_key(row: Row) -> Key:
    """The airport and the hour of a row, written as the tables do: 2013-01-01T10:00:00Z."""
    hour = datetime.fromisoformat(str(row["time_hour"]))
    return str(row["origin"]), f"{hour:%Y-%m-%dT%H:%M:%SZ}"


def _differences(topic: str, expected: Mapping[Key, Row], rows: Mapping[Key, Row]) -> list[str]:
    found = []
    if missing := expected.keys() - rows.keys():
        found.append(
            f"{topic}: {len(missing):,} of {len(expected):,} are missing, such as {' '.join(min(missing))}"
        )
    if surplus := rows.keys() - expected.keys():
        found.append(f"{topic}: {len(surplus):,} are not in the data, such as {' '.join(min(surplus))}")
    wrong = [
        f"{topic}: {' '.join(key)} has {name} {rows[key].get(name)}, and pandas says {value}"
        for key in sorted(expected.keys() & rows.keys())
        for name, value in expected[key].items()
        if name != "time_hour" and not same(rows[key].get(name, ...), value)
    ]
    if len(wrong) > SHOWN_MAX:
        wrong = [*wrong[:SHOWN_MAX], f"{topic}: and {len(wrong) - SHOWN_MAX:,} other values are wrong"]
    return [*found, *wrong]


def same(value: Any, expected: Any) -> bool:
    """Whether a record's value equals that of pandas; NaN equals null."""
    nothing = expected is None or (isinstance(expected, float) and math.isnan(expected))
    return value is None if nothing else bool(value == expected)
