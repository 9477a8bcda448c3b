"""Sources of dlt that the tests of the connector run."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import dlt
import pyarrow as pa

ROWS: list[dict[str, Any]] = []
"""What there is to read; a test fills it."""


@dlt.resource(primary_key="id")
def events(at: Any = dlt.sources.incremental("at", initial_value=0)) -> Iterator[Any]:  # noqa: B008
    """In no order, as interfaces like it."""
    rows = [row for row in ROWS if row["at"] >= at.last_value]
    yield [row for row in rows if row["at"] % 2]
    if any(row.get("breaks") for row in rows):
        raise ConnectionError("gone away")
    yield [row for row in rows if not row["at"] % 2]


@dlt.resource
def table() -> Iterator[Any]:
    yield pa.table({"id": [1, 2], "day": [datetime.date(2026, 1, 1), None]})


@dlt.source
def both() -> Any:
    return events, table


def nothing() -> int:
    return 5
