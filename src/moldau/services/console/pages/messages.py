"""Records of a topic: a page of them, one of them, and what the URL says about both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from moldau.client.admin.problem import KafkaProblem
from moldau.services.console.facts.snapshot import Ends, TopicFacts
from moldau.services.console.messages.browsing import (
    LIMITS,
    SCANNED,
    Found,
    Look,
    Row,
    browse,
    one_record,
    row_of,
)
from moldau.services.console.messages.copy_as import Place, snippets
from moldau.services.console.messages.decoding import FORMATS, Shown, hex_dump, pretty
from moldau.services.console.messages.expressions import BadExpression, compile_filter
from moldau.services.console.messages.masking import TopicMasks
from moldau.services.console.messages.positions import (
    STARTS,
    Span,
    cursor_of,
    cursor_text,
    first,
    from_moments,
    from_offset,
    newest,
    oldest,
)
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import Data, Page, Parameter
from moldau.services.console.pages.topics import head
from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.reading import ReadRecord, TooManyReaders

_SHOWN_CHARACTERS_MAX = 256 * 1024
SCANS = (2_000, SCANNED, 100_000, 1_000_000)

PARAMETERS = (
    Parameter("from", "newest, oldest, offset or timestamp.", {"type": "string", "enum": list(STARTS)}),
    Parameter(
        "offset", "With from=offset: the first offset; negative: so many before the end.", {"type": "integer"}
    ),
    Parameter("timestamp", "With from=timestamp: a moment (ISO 8601; UTC) or milliseconds since 1970."),
    Parameter("partition", "Only this partition.", {"type": "integer", "minimum": 0}),
    Parameter("limit", "The most records.", {"type": "integer", "enum": list(LIMITS)}),
    Parameter("q", "Text that key, value or a header has, in any case."),
    Parameter("filter", 'An expression, such as value.amount > 100 and key startswith "eu-".'),
    Parameter(
        "scan", "With q or filter: how many offsets are looked at.", {"type": "integer", "enum": list(SCANS)}
    ),
    Parameter("key", "How keys are shown.", {"type": "string", "enum": list(FORMATS)}),
    Parameter("value", "How values are shown.", {"type": "string", "enum": list(FORMATS)}),
    Parameter("at", "Where to go on: offsets of partitions, as a page before named them."),
)


def look_of(call: Call, topic: str) -> Look:
    """How records are decoded and which are wanted. HttpProblem 400 for a filter that cannot be used."""
    text = call.query.get("filter", "").strip()
    matches = None
    if text:
        try:
            matches = compile_filter(text)
        except BadExpression as problem:
            raise HttpProblem(400, str(problem)) from None
    return Look(
        call.choice("key", FORMATS, "auto"),
        call.choice("value", FORMATS, "auto"),
        call.query.get("q", "")[:500].strip(),
        matches,
        call.console.cluster.by_schema,
        TopicMasks(call.console.configuration.masks, topic),
    )


def partition_of(call: Call, topic: TopicFacts) -> int | None:
    """The one partition that is wanted; None: all. HttpProblem."""
    if not call.query.get("partition", "").strip():
        return None
    index = call.number("partition", 0)
    if all(each.partition_id != index for each in topic.partitions):
        raise HttpProblem(400, f"{topic.name} has no partition {index}: it has {len(topic.partitions)}.")
    return index


async def spans_of(call: Call, topic: TopicFacts, ends: Mapping[int, Ends], start: str) -> dict[int, Span]:
    """What may be read, by where reading begins. HttpProblem."""
    at = cursor_of(call.query.get("at", ""))
    if at and start == "newest":  # further back than the page before
        return {
            index: Span(each.start, min(each.end, max(each.start, at.get(index, each.end))))
            for index, each in ends.items()
        }
    if at:
        return {
            index: Span(min(each.end, max(each.start, at.get(index, each.end))), each.end)
            for index, each in ends.items()
        }
    if start == "offset":
        return from_offset(ends, call.number("offset", 0, -(2**63)))
    if start == "timestamp":
        moment = moment_of(call.query.get("timestamp", ""))
        return from_moments(ends, await call.console.cluster.at_moment(topic.name, ends, moment))
    return oldest(ends)


def moment_of(text: str) -> int:
    """Milliseconds since 1970. HttpProblem 400."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        at = datetime.fromisoformat(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise HttpProblem(400, f"{text[:40]!r} is no moment: write it as 2026-02-14T09:00 (UTC).") from None


async def messages(call: Call) -> Data:
    """See the page's row."""
    topic, snapshot = await call.topic(), await call.snapshot()
    start = call.choice("from", STARTS, "newest")
    limit = call.number("limit", 50)
    limit = limit if limit in LIMITS else 50
    scan = call.number("scan", SCANNED)
    scan = scan if scan in SCANS else SCANNED
    found, problem, spans = Found(), "", {}
    ends: dict[int, Ends] = {}
    try:
        look = look_of(call, topic.name)
        ends = await call.console.cluster.ends(topic, partition_of(call, topic))
        allowed = await spans_of(call, topic, ends, start)
        depth = scan if look.filters else limit
        spans = newest(allowed, depth) if start == "newest" else first(allowed, depth)
        found = await browse(
            call.console.cluster.readers, topic.name, spans, look, limit, newest_first=start == "newest"
        )
        filters = look.filters
    except HttpProblem as refused:
        if refused.status != 400 or call.wants_json:
            raise
        problem, filters = refused.message, False
    except TooManyReaders:
        raise HttpProblem(429, "Too many readings of records are under way: try again in a moment.") from None
    return {
        **head(call, snapshot, topic),
        "rows": [row_json(each) for each in found.rows],
        "problem": problem,
        "from": start,
        "limit": limit,
        "scan": scan,
        "filtered": filters,
        "scanned": found.scanned,
        "scanned_bytes": found.scanned_bytes,
        "seconds": round(found.seconds, 3),
        "complete": found.complete,
        "records_in_reach": sum(each.end - each.start for each in ends.values()),
        "on": _cursor_on(start, ends, spans, found),
        "masked": bool(TopicMasks(call.console.configuration.masks, topic.name).any),
        "limits": LIMITS,
        "scans": SCANS,
        "formats": [each for each in FORMATS if each != "schema" or call.console.cluster.by_schema],
        "copies": _copies(call, topic, start),
    }


def _cursor_on(start: str, ends: Mapping[int, Ends], spans: Mapping[int, Span], found: Found) -> str:
    """Where the next page begins (of the newest: ends); empty if there is none."""
    if not spans:
        return ""
    if start == "newest":
        if all(span.start <= ends[index].start for index, span in spans.items()):
            return ""
        return cursor_text({index: span.start for index, span in spans.items()})
    offsets = found.positions
    if all(offset >= ends[index].end for index, offset in offsets.items()):
        return ""
    return cursor_text(offsets)


def _copies(call: Call, topic: TopicFacts, start: str) -> dict[str, str]:
    text = call.query.get("partition", "").strip()
    partition = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    offset = None
    if start == "offset" and call.query.get("offset", "").strip().isdigit():
        offset = int(call.query["offset"].strip()[:18])
        partition = partition if partition is not None else 0
    servers = call.console.cluster.bootstrap_servers
    return snippets(Place(servers, topic.name, partition, offset, 50))


def row_json(row: Row) -> dict[str, Any]:
    """A record of a list: the beginnings of its key and value."""
    return {
        "partition": row.partition,
        "offset": row.offset,
        "timestamp_ms": row.timestamp_ms,
        "key": _part_json(row.key),
        "value": _part_json(row.value),
        "headers": [{"name": name, "value": text} for name, text in row.headers],
        "size_bytes": row.size_bytes,
    }


def _part_json(part: Shown) -> dict[str, Any]:
    return {"text": part.text, "format": part.format, "note": part.note, "schema": part.schema}


async def message(call: Call) -> Data:
    """See the page's row."""
    topic, snapshot = await call.topic(), await call.snapshot()
    partition, offset = (int(call.request.path_params[name]) for name in ("partition", "offset"))
    look = look_of(call, topic.name)
    try:
        record = await one_record(call.console.cluster.readers, topic.name, partition, offset)
    except TooManyReaders:
        raise HttpProblem(429, "Too many readings of records are under way: try again in a moment.") from None
    if record is None:
        raise KafkaProblem(
            1,
            f"There is no record at offset {offset} of {topic.name}-{partition}: it was deleted or "
            "compacted, is "
            "the end of a transaction, or has not been written yet.",
        )
    row, key, value = await asyncio.to_thread(_decoded, topic.name, record, look)
    ends = snapshot.ends.get((topic.name, partition))
    return {
        **head(call, snapshot, topic),
        "partition": partition,
        "offset": offset,
        "timestamp_ms": row.timestamp_ms,
        "is_log_append_time": record.is_log_append_time,
        "key": key,
        "value": value,
        "headers": [{"name": name, "value": text} for name, text in row.headers],
        "size_bytes": row.size_bytes,
        "before": offset - 1 if offset > (ends.start if ends else 0) else None,
        "after": offset + 1 if ends is None or offset + 1 < ends.end else None,
        "formats": [each for each in FORMATS if each != "schema" or look.by_schema],
        "key_format": look.key_format,
        "value_format": look.value_format,
        "copies": snippets(Place(call.console.cluster.bootstrap_servers, topic.name, partition, offset)),
    }


def _decoded(topic: str, record: ReadRecord, look: Look) -> tuple[Row, dict[str, Any], dict[str, Any]]:
    """The record with its key and value as they are printed; for a thread, since they may be large."""
    row, masks = row_of(topic, record, look), look.masks
    key_hidden, value_hidden = (masks is not None and masks.hides(each) for each in ("key", "value"))
    return row, _whole(row.key, record.key, key_hidden), _whole(row.value, record.value, value_hidden)


def _whole(part: Shown, data: bytes | None, hidden: bool) -> dict[str, Any]:
    text = part.text
    if part.format in ("json", "schema") and len(text) <= _SHOWN_CHARACTERS_MAX:
        text = pretty(part.value)
    elif part.format == "hex" and data is not None and not hidden:
        text = hex_dump(data)
    cut = max(0, len(text) - _SHOWN_CHARACTERS_MAX)
    return {
        **_part_json(part),
        "text": text[:_SHOWN_CHARACTERS_MAX],
        "cut_characters": cut,
        "size_bytes": None if data is None else len(data),
    }


PAGES = (
    Page(
        "messages",
        "/topics/{topic}/messages",
        "messages.html",
        "topics",
        "Records of a topic: newest, oldest, from an offset or a moment; searched and filtered",
        messages,
        PARAMETERS,
    ),
    Page(
        "message",
        "/topics/{topic}/messages/{partition}/{offset}",
        "message.html",
        "topics",
        "One record, whole",
        message,
        tuple(each for each in PARAMETERS if each.name in ("key", "value")),
    ),
)
