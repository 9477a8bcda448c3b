"""Reads a page of records: at most so many, within limits of bytes and time, in threads.

    no filter     the wanted number of offsets, shared over the partitions, is read and shown
    a filter      SCANNED offsets are read; what matches is shown, and the page says how far it has looked

Only what is shown is kept: previews, not the records. The cursor names where to go on, so that a page that
ended early (bytes, time) loses nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.services.console.messages.decoding import BySchema, Shown, shown
from moldau.services.console.messages.masking import TopicMasks
from moldau.services.console.messages.positions import Span
from moldau.services.http.context import CLIENT_IS_GONE
from moldau.services.kafka.reading import Reader, Readers, ReadRecord

SCANNED = 20_000
LIMITS = (25, 50, 100, 250, 500)
PREVIEW_CHARACTERS = 400
BYTES_MAX = 64 * 1024 * 1024
SECONDS_MAX = 10.0
_AT_ONCE = 500
_WAIT_SECONDS = 0.5
_QUIET_READS_MAX = 6
"""Reads that bring nothing before the page is taken for finished: a partition may have no leader."""


@dataclass(frozen=True, slots=True)
class Look:
    """How records are decoded and which are wanted."""

    key_format: str = "auto"
    value_format: str = "auto"
    search: str = ""
    matches: Callable[[Mapping[str, Any]], bool] | None = None
    by_schema: BySchema | None = None
    masks: TopicMasks | None = None

    @property
    def filters(self) -> bool:
        """Whether not every record is wanted."""
        return bool(self.search) or self.matches is not None


@dataclass(frozen=True, slots=True)
class Row:
    """A record as a page shows it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: Shown
    value: Shown
    headers: tuple[tuple[str, str], ...]
    size_bytes: int


@dataclass(slots=True)
class Found:
    """A page of records and how it was found."""

    rows: list[Row] = field(default_factory=list)
    scanned: int = 0
    scanned_bytes: int = 0
    complete: bool = True
    """Whether all of the spans was read."""
    positions: dict[int, int] = field(default_factory=dict)
    """The next offset to be read of each partition."""
    seconds: float = 0.0


def row_of(topic: str, record: ReadRecord, look: Look) -> Row:
    """The record decoded, with what is masked hidden."""
    masks = look.masks
    key_format, value_format = look.key_format, look.value_format
    if masks is not None:
        key_format = "auto" if masks.hides("key") else key_format
        value_format = "auto" if masks.hides("value") else value_format
    key = shown(record.key, key_format, is_key=True, headers=record.headers, by_schema=look.by_schema)
    value = shown(record.value, value_format, is_key=False, headers=record.headers, by_schema=look.by_schema)
    if masks is not None and masks.any:
        key, value = masks.applied("key", key), masks.applied("value", value)
    headers = tuple(
        (name, "•••" if masks is not None and masks.header(name) else header_text(data))
        for name, data in record.headers
    )
    return Row(
        topic, record.partition, record.offset, record.timestamp_ms, key, value, headers, record.size_bytes
    )


def header_text(data: bytes | None) -> str:
    """A header's value."""
    return "" if data is None else shown(data, "auto", is_key=False).text


def is_wanted(row: Row, look: Look) -> bool:
    """Whether a record passes the search and the filter."""
    if look.search:
        word = look.search.lower()
        texts = (row.key.text, row.value.text, *(f"{name}={text}" for name, text in row.headers))
        if not any(word in text.lower() for text in texts):
            return False
    if look.matches is None:
        return True
    return look.matches(
        {
            "topic": row.topic,
            "key": row.key.value,
            "value": row.value.value,
            "headers": dict(row.headers),
            "partition": row.partition,
            "offset": row.offset,
            "timestamp": row.timestamp_ms,
            "size": row.size_bytes,
        }
    )


async def browse(
    readers: Readers,
    topic: str,
    spans: Mapping[int, Span],
    look: Look,
    limit: int,
    *,
    newest_first: bool,
    clock: Callable[[], float] = time.monotonic,
) -> Found:
    """The records of the spans that are wanted, at most `limit`: the newest of all, or the first found.
    TooManyReaders, KafkaProblem."""
    found = Found(positions={index: span.start for index, span in spans.items()})
    open_spans = {index: span for index, span in spans.items() if span.count}
    if not open_spans:
        return found
    began = clock()
    page = _Page(topic, look, limit, newest_first)
    reader = await readers.open(topic, {index: span.start for index, span in open_spans.items()})
    try:
        quiet = 0
        while _unread(reader, open_spans):
            spent = clock() - began > SECONDS_MAX or found.scanned_bytes > BYTES_MAX
            if spent or quiet >= _QUIET_READS_MAX or CLIENT_IS_GONE.get()():
                found.complete = False
                break
            records = await reader.next(_AT_ONCE, _WAIT_SECONDS)
            quiet = 0 if records else quiet + 1
            inside = [each for each in records if each.offset < open_spans[each.partition].end]
            taken = await asyncio.to_thread(page.take, inside) if inside else 0
            for each in inside[:taken]:
                found.positions[each.partition] = each.offset + 1
                found.scanned_bytes += each.size_bytes
            found.scanned += taken
            if page.is_full:
                found.complete = False
                break
        else:
            found.positions = {index: span.end for index, span in spans.items()}
    finally:
        await reader.close()
    found.rows = page.rows()
    found.seconds = clock() - began
    return found


def _unread(reader: Reader, spans: Mapping[int, Span]) -> bool:
    return any(reader.positions[index] < span.end for index, span in spans.items())


class _Page:
    """The rows that are kept: the newest `limit`, or the first."""

    def __init__(self, topic: str, look: Look, limit: int, newest_first: bool) -> None:
        self._topic, self._look, self._limit, self._newest_first = topic, look, limit, newest_first
        self._kept: list[tuple[tuple[int, int, int], Row]] = []

    @property
    def is_full(self) -> bool:
        return not self._newest_first and len(self._kept) >= self._limit

    def take(self, records: Sequence[ReadRecord]) -> int:
        """Look at records, in a thread; how many, if the page was full before the last."""
        for count, record in enumerate(records):
            if self.is_full:
                return count
            row = row_of(self._topic, record, self._look)
            if not is_wanted(row, self._look):
                continue
            entry = _order(row), previewed(row)
            if len(self._kept) < self._limit:
                heapq.heappush(self._kept, entry)
            else:
                heapq.heappushpop(self._kept, entry)
        return len(records)

    def rows(self) -> list[Row]:
        ordered = sorted(self._kept, key=lambda entry: entry[0], reverse=self._newest_first)
        return [row for _, row in ordered]


def _order(row: Row) -> tuple[int, int, int]:
    return row.timestamp_ms or 0, row.offset, row.partition


def previewed(row: Row) -> Row:
    """The row with the beginning of long texts, and without decoded values."""
    return Row(
        row.topic,
        row.partition,
        row.offset,
        row.timestamp_ms,
        _preview(row.key),
        _preview(row.value),
        tuple((name[:100], text[:200]) for name, text in row.headers[:50]),
        row.size_bytes,
    )


def _preview(part: Shown) -> Shown:
    text = part.text if len(part.text) <= PREVIEW_CHARACTERS else part.text[:PREVIEW_CHARACTERS] + "…"
    return part._replace(value=None, text=text)


async def one_record(readers: Readers, topic: str, partition: int, offset: int) -> ReadRecord | None:
    """The record at this offset; None if there is none (deleted, compacted, a transaction's marker)."""
    reader = await readers.open(topic, {partition: offset})
    try:
        for _ in range(_QUIET_READS_MAX):
            for record in await reader.next(1, _WAIT_SECONDS):
                return record if record.offset == offset else None
            if reader.positions[partition] > offset:
                return None
    finally:
        await reader.close()
    return None
