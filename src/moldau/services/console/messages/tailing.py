"""New records as they come, for a live page: decoded, filtered, not more than people can read.

The reader fetches little ahead, and nothing while a piece waits to be sent: a page that does not keep up is
told how many records it did not see, and one that reads nothing is cut off by the server's own limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from moldau.services.console.messages.browsing import Look, Row, is_wanted, previewed, row_of
from moldau.services.kafka.reading import Readers, ReadRecord

PER_SECOND_MAX = 40
_WAIT_SECONDS = 1.0
QUIET_SECONDS = 10.0


class Batch(NamedTuple):
    """What came: rows to show, how many more matched, how many were looked at."""

    rows: list[Row]
    left_out: int
    scanned: int


async def tail(
    readers: Readers,
    topic: str,
    positions: Mapping[int, int],
    look: Look,
    ending: asyncio.Event,
) -> AsyncIterator[Batch]:
    """Batches without end; an empty one when nothing has come for a while, so that one sees who has gone.
    TooManyReaders, KafkaProblem."""
    reader = await readers.open(topic, positions)
    budget, budget_at, quiet_since = float(PER_SECOND_MAX), time.monotonic(), time.monotonic()
    try:
        while not ending.is_set():
            records = await reader.next(500, _WAIT_SECONDS)
            now = time.monotonic()
            budget, budget_at = min(PER_SECOND_MAX, budget + (now - budget_at) * PER_SECOND_MAX), now
            if not records:
                if now - quiet_since > QUIET_SECONDS:
                    quiet_since = now
                    yield Batch([], 0, 0)
                continue
            rows, left_out = await asyncio.to_thread(_rows, topic, records, look, int(budget))
            budget -= len(rows)
            quiet_since = now
            yield Batch(rows, left_out, len(records))
    finally:
        await reader.close()


def _rows(topic: str, records: list[ReadRecord], look: Look, most: int) -> tuple[list[Row], int]:
    """The newest that are wanted, at most so many, and how many were left out."""
    found = []
    for record in records:
        row = row_of(topic, record, look)
        if is_wanted(row, look):
            found.append(previewed(row))
    left_out = max(0, len(found) - most)
    return found[left_out:], left_out
