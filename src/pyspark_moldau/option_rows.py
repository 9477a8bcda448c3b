"""A row of an option table: read by the checks, the error messages and the documentation."""

from __future__ import annotations

from typing import NamedTuple

BATCH, STREAM = "batch", "stream"
BOTH = (BATCH, STREAM)


class Row(NamedTuple):
    """An option: name, default as text, the queries that have it, and its description."""

    name: str
    default: str
    queries: tuple[str, ...]
    meaning: str
