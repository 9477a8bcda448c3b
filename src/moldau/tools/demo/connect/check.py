"""What the files say of the table: the last change of each row counts, and deleted rows are gone."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COLUMNS = ("id", "day", "carrier", "airline", "origin", "dest", "dep_delay", "distance")


def file_rows(folder: Path) -> tuple[list[tuple[Any, ...]], int]:
    """The table as the files have it, by id; and how many changes they hold."""
    import pyarrow.dataset as ds

    files = sorted(str(path) for path in folder.rglob("*.parquet"))
    if not files:
        return [], 0
    changes = ds.dataset(files, format="parquet").to_table().sort_by("__source_lsn").to_pylist()
    last = {row["id"]: row for row in changes}
    rows = [last[number] for number in sorted(last) if last[number]["__deleted"] != "true"]
    return [tuple(_value(name, row[name]) for name in COLUMNS) for row in rows], len(changes)


def _value(name: str, value: Any) -> Any:
    if name != "day":
        return value
    if isinstance(value, int):  # days since 1970 (Debezium's Date)
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
    return value


def difference(files: Sequence[tuple[Any, ...]], table: Sequence[tuple[Any, ...]]) -> str:
    """In what they differ, or nothing."""
    if len(files) != len(table):
        return f"the files have {len(files):,} rows, the table {len(table):,}"
    for one, other in zip(files, table, strict=True):
        if tuple(one) != tuple(other):
            return f"row {other[0]} is {one} in the files, and {other} in the table"
    return ""
