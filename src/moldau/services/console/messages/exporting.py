"""Records as JSON lines or CSV, made while they are sent: an export of any length costs little memory.

CSV: cells that a spreadsheet would take for a formula (they begin with = + - @) get a quotation mark before
them, unless they are plain numbers.

A filter that matches nothing sends nothing: whether the client is still there is therefore asked before each
reading, or an export that nobody waits for would read all of a topic.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import orjson

from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.errors import ErrorCode
from moldau.services.console.messages.browsing import Look, Row, is_wanted, row_of
from moldau.services.console.messages.positions import Span
from moldau.services.http.context import CLIENT_IS_GONE
from moldau.services.kafka.reading import Readers, ReadRecord

FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
RECORDS_MAX = 10_000_000
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
_QUIET_READS_MAX = 20
_WAIT_SECONDS = 0.5


async def exported(
    readers: Readers, topic: str, spans: Mapping[int, Span], look: Look, form: str, limit: int
) -> AsyncIterator[bytes]:
    """The records of the spans in pieces; ends after `limit`. TooManyReaders, KafkaProblem: also where a
    partition is not read to its end, so that half an export does not pass for a whole one."""
    open_spans = {index: span for index, span in spans.items() if span.count}
    if form == "csv":
        yield _csv_line(COLUMNS)
    if not open_spans:
        return
    reader = await readers.open(topic, {index: span.start for index, span in open_spans.items()})
    left, quiet = limit, 0
    try:
        while left > 0 and not CLIENT_IS_GONE.get()():
            unread = [index for index, span in open_spans.items() if reader.positions[index] < span.end]
            if not unread:
                return
            if quiet >= _QUIET_READS_MAX:
                raise KafkaProblem(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{topic}-{unread[0]} was read up to offset {reader.positions[unread[0]]} only: "
                    "its leader does not answer. The export is not whole.",
                )
            records = await reader.next(500, _WAIT_SECONDS)
            quiet = 0 if records else quiet + 1
            inside = [each for each in records if each.offset < open_spans[each.partition].end]
            if inside:
                piece, count = await asyncio.to_thread(_piece, topic, inside, look, form, left)
                left -= count
                if piece:
                    yield piece
    finally:
        await reader.close()


def _piece(topic: str, records: Sequence[ReadRecord], look: Look, form: str, left: int) -> tuple[bytes, int]:
    lines: list[bytes] = []
    for record in records:
        if len(lines) >= left:
            break
        row = row_of(topic, record, look)
        if not is_wanted(row, look):
            continue
        lines.append(_json_line(row) if form == "jsonl" else _csv_line(_cells(row)))
    return b"".join(lines), len(lines)


def record_json(row: Row) -> dict[str, Any]:
    """A record as the JSON interface and exports show it."""
    return {
        "partition": row.partition,
        "offset": row.offset,
        "timestamp": row.timestamp_ms,
        "key": row.key.value if row.key.value is not None else (row.key.text or None),
        "key_format": row.key.format,
        "value": row.value.value if row.value.value is not None else (row.value.text or None),
        "value_format": row.value.format,
        "headers": [{"name": name, "value": text} for name, text in row.headers],
        "size_bytes": row.size_bytes,
    }


def _json_line(row: Row) -> bytes:
    try:
        return orjson.dumps(record_json(row)) + b"\n"
    except TypeError:  # an integer beyond 64 bits
        shown = record_json(row) | {"key": row.key.text, "value": row.value.text}
        return orjson.dumps(shown) + b"\n"


def _cells(row: Row) -> tuple[str, ...]:
    headers = "; ".join(f"{name}={text}" for name, text in row.headers)
    stamp = "" if row.timestamp_ms is None else str(row.timestamp_ms)
    return (
        str(row.partition),
        str(row.offset),
        stamp,
        _safe(row.key.text),
        _safe(row.value.text),
        _safe(headers),
    )


def _safe(text: str) -> str:
    if text.lstrip()[:1] in ("=", "+", "-", "@") or text[:1] in ("\t", "\r", "\n"):
        try:
            float(text)
        except ValueError:
            return f"'{text}"
    return text


def _csv_line(cells: Sequence[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue().encode("utf-8", "replace")
