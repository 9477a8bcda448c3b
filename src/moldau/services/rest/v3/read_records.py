"""Records of a topic without a consumer session: a page of them, or a live tail as server-sent events.

Not in Confluent's API. The two differ by the Accept header:

    application/json     what is there, at most `limit`; metadata.next is the URL of the next page
    text/event-stream    what is there and what comes; the id of an event has the positions after it, so a
                         browser's EventSource, which sends the last id again, goes on where it was (with
                         more than 100 partitions an id comes with some events only: those after it again)

Positions are the client's, nothing is committed. A reader that does not read its events is not read for: the
next records are asked of Kafka when the last have left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from moldau.client.admin.problem import KafkaProblem
from moldau.services.http.answers import NOT_COMPRESSED, bytes_answer
from moldau.services.http.context import context_of
from moldau.services.http.media_types import choose
from moldau.services.http.problems import HttpProblem, plain_problem
from moldau.services.kafka.reading import Reader, ReadRecord, TooManyReaders
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import PARTITION_NOT_FOUND, http_problem
from moldau.services.rest.v3.operations import Query, Right, operation
from moldau.services.rest.v3.partition_lookup import find_topic
from moldau.services.rest.v3.positions import (
    PLAIN_PARTITIONS_MAX,
    Start,
    parse_positions,
    parse_start,
    positions_text,
    resolve,
)
from moldau.services.rest.v3.read_record_json import FORMATS, RecordShower, format_named

LIMIT_DEFAULT = 100
LIMIT_MAX = 10_000
PAGE_BYTES_MAX = 4 * 1024 * 1024
_PAGE_SECONDS = 10.0
_WAIT_MS_MAX = 30_000
_POLL_SECONDS = 1.0
_RECORDS_AT_ONCE = 100
_ALIVE_SECONDS = 15.0
_ROOM_SECONDS = 30.0
_WHILE_MADE = 4
"""A record, its text (base64 takes a third more) and the event that is made of it are there at once."""
_PIECE_BYTES = 64 * 1024
_LOOK_SECONDS = 5.0
_RETRY_MS = 3_000
_ID_BYTES_MAX = 12 * 1024
_ID_PARTITIONS_MAX = 5_000
"""A longer id, which more partitions have, could not be sent back: a request's head has at most 16 KiB."""
_EVENTS = "text/event-stream"
_TOO_MANY = 429
_QUERY = (
    Query("from", "Where to begin: beginning, end, a time (ISO 8601), an offset, or partition:offset,..."),
    Query("partition", "Only these partitions: a number, or several with commas."),
    Query("limit", "The most records.", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}),
    Query(
        "timeout",
        "How long a page waits for a first record, in milliseconds.",
        {"type": "integer", "minimum": 0, "maximum": _WAIT_MS_MAX},
    ),
    Query("key_format", "How keys are shown.", "ReadFormat"),
    Query("value_format", "How values are shown.", "ReadFormat"),
)


@operation(
    "GET",
    "/clusters/{cluster_id}/topics/{topic_name}/records",
    "readRecords",
    "Read records: a page, or with Accept: text/event-stream a live tail",
    tag="Records (v3)",
    right=Right("read", "topic", "topic_name"),
    answers={200: "RecordList"},
    query=_QUERY,
    media_types=("application/json", _EVENTS),
)
async def read_records(call: Call) -> Response:
    media_type = choose(call.request.headers.get("accept"), ("application/json", _EVENTS))
    if media_type is None:
        raise plain_problem(406)
    is_tail = media_type == _EVENTS
    limit = _number(call, "limit", 1, LIMIT_MAX)
    wait_ms = _number(call, "timeout", 0, _WAIT_MS_MAX) or 0
    shower = RecordShower(
        call.service.schemas,
        format_named(call.query("key_format"), "key_format"),
        format_named(call.query("value_format"), "value_format"),
    )
    topic = await find_topic(call)
    partitions = _partitions(call, [each.partition_id for each in topic.partitions])
    start = await asyncio.to_thread(_start, call, partitions, is_tail)  # packed positions take time
    found = await call.ask(partial(resolve, topic=topic.name, partitions=partitions, start=start))
    if call.request.method == "HEAD":
        return Response(media_type=media_type)
    reader = await _open(call, topic.name, found.begins)
    if is_tail:
        return _Tail(call, reader, shower, limit)
    try:
        return await _page(call, reader, shower, found.ends, limit or LIMIT_DEFAULT, wait_ms / 1000)
    finally:
        await reader.close()


def _number(call: Call, name: str, least: int, most: int) -> int | None:
    text = call.query(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and least <= int(text) <= most):
        raise HttpProblem(400, f"{name} must be a number from {least} to {most}, and not {text[:40]!r}.")
    return int(text)


def _partitions(call: Call, existing: Sequence[int]) -> list[int]:
    text = call.query("partition")
    if text is None:
        return list(existing)
    wanted = []
    for each in dict.fromkeys(text.split(",")):
        if not (each.isascii() and each.isdigit() and len(each) <= 10):
            raise HttpProblem(
                400, f"partition must be a number, or several with commas, and not {text[:40]!r}."
            )
        if int(each) not in existing:
            raise HttpProblem(
                PARTITION_NOT_FOUND, f"Partition not found: the topic has no partition {int(each)}."
            )
        wanted.append(int(each))
    return wanted


def _start(call: Call, partitions: Sequence[int], is_tail: bool) -> Start:
    """An event's id wins over `from`: the URL of an EventSource stays the same when it connects again."""
    last = call.request.headers.get("last-event-id") if is_tail else None
    if last:
        known = parse_positions(last)
        return Start({each: known[each] for each in partitions if each in known}, -2)
    return parse_start(call.query("from") or ("end" if is_tail else "beginning"), partitions)


async def _open(call: Call, topic: str, begins: Mapping[int, int]) -> Reader:
    try:
        return await call.service.readers.open(topic, begins)
    except TooManyReaders:
        raise HttpProblem(
            _TOO_MANY,
            f"The proxy reads for {call.service.readers.open_count} clients already: try again "
            "(moldau.rest.readers.max, moldau.rest.responses.bytes.max).",
            headers={"Retry-After": "1"},
        ) from None
    except KafkaProblem as problem:
        raise http_problem(problem) from None


async def _page(
    call: Call,
    reader: Reader,
    shower: RecordShower,
    ends: Mapping[int, int],
    limit: int,
    wait_seconds: float,
) -> Response:
    loop = asyncio.get_running_loop()
    began = loop.time()
    texts: list[bytes] = []
    size_bytes = 0
    context = context_of(call.request)
    while len(texts) < limit and size_bytes < PAGE_BYTES_MAX:
        spent = loop.time() - began
        everything = all(reader.positions[each] >= end for each, end in ends.items())
        if (everything and (texts or spent >= wait_seconds)) or spent > _PAGE_SECONDS + wait_seconds:
            break
        left = wait_seconds - spent if everything else _POLL_SECONDS
        try:
            records = await reader.next(min(limit - len(texts), _RECORDS_AT_ONCE), min(left, 0.2))
        except KafkaProblem as problem:
            raise http_problem(problem) from None
        for text in await shower.texts(records):
            context.hold(len(text))
            size_bytes += len(text)
            texts.append(text)
    url = call.links.url("clusters", call.cluster_id, "topics", call.path["topic_name"], "records")
    query = {name: value for name, value in call.request.query_params.items() if name != "from"}
    following = call.links.url(
        "clusters",
        call.cluster_id,
        "topics",
        call.path["topic_name"],
        "records",
        query={**query, "from": await asyncio.to_thread(positions_text, dict(reader.positions))},
    )
    context.hold(size_bytes)  # the response and its parts are there at once
    metadata = orjson.dumps({"self": url, "next": following})
    body = b'{"kind":"KafkaRecordList","metadata":' + metadata + b',"data":[' + b",".join(texts) + b"]}"
    return bytes_answer(body, "application/json")


class _Tail(Response):
    """The live tail: events until the client goes, the limit is reached or Kafka refuses."""

    def __init__(self, call: Call, reader: Reader, shower: RecordShower, limit: int | None) -> None:
        super().__init__()
        self._call = call
        self._reader = reader
        self._shower = shower
        self._left = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_until_gone(receive))
        sending = asyncio.ensure_future(self._send_all(send))
        ending = asyncio.ensure_future(scope["app"].ending.wait())
        try:
            await asyncio.wait({gone, sending, ending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
        finally:
            for task in (gone, sending, ending):
                task.cancel()
            ended = await asyncio.gather(sending, ending, gone, return_exceptions=True)
            if ended[0] is not None and ended[1] is True and ended[2] is not None:  # the server stops
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            await self._reader.close()

    async def _send_all(self, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
            NOT_COMPRESSED,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _part(send, b"retry: %d\n\n" % _RETRY_MS)
        try:
            await self._send_records(send)
        except (KafkaProblem, HttpProblem) as problem:
            shown = http_problem(problem) if isinstance(problem, KafkaProblem) else problem
            text = orjson.dumps({"error_code": shown.error_code, "message": shown.message})
            await _part(send, b"event: error\ndata: " + text + b"\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_records(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        alive = looked = loop.time()
        while self._left is None or self._left > 0:
            most = _RECORDS_AT_ONCE if self._left is None else min(self._left, _RECORDS_AT_ONCE)
            positions = dict(self._reader.positions)
            records = await self._reader.next(most, _POLL_SECONDS)
            if records:
                count = len(records)
                await self._send_events(send, records, positions)
                alive = looked = loop.time()
                if self._left is not None:
                    self._left -= count
                continue
            del records
            if loop.time() - looked >= _LOOK_SECONDS:
                await self._check_topic()
                looked = loop.time()
            if loop.time() - alive >= _ALIVE_SECONDS:
                await _part(send, b": nothing new\n\n")  # so that a client that has gone is noticed
                alive = loop.time()

    async def _send_events(self, send: Send, records: list[ReadRecord], positions: dict[int, int]) -> None:
        """Send records, counted against what responses hold; empties the list. HttpProblem 503 if there is no
        room for long: clients that read nothing have it.
        """
        budget = self._call.service.readers.unsent
        held_bytes = _WHILE_MADE * sum(each.size_bytes for each in records)
        try:
            await budget.take(held_bytes, _ROOM_SECONDS)
        except TimeoutError:
            raise HttpProblem(503, "The proxy has no memory left for responses: try again.") from None
        try:
            events = await self._events(records, positions)
            records.clear()
            budget.charge(len(events))
            budget.give_back(held_bytes)
            held_bytes = len(events)
            view = memoryview(events)
            for start in range(0, len(events), _PIECE_BYTES):
                await _part(send, bytes(view[start : start + _PIECE_BYTES]))
        finally:
            budget.give_back(held_bytes)

    async def _check_topic(self) -> None:
        """A topic that was deleted has no records, and no error for a while. HttpProblem."""
        try:
            await find_topic(self._call)
        except HttpProblem as problem:
            if problem.status < 500:  # brokers that are away come again
                raise

    async def _events(self, records: Sequence[ReadRecord], positions: dict[int, int]) -> bytes:
        """Events, each with its id; with very many partitions only the last has one, which then is long."""
        is_packed = len(positions) > PLAIN_PARTITIONS_MAX
        places = {} if is_packed else {each: f"{each}:{at}" for each, at in sorted(positions.items())}
        texts = await self._shower.texts(records)
        parts = []
        for count, (record, text) in enumerate(zip(records, texts, strict=True), start=1):
            positions[record.partition] = record.offset + 1
            if not is_packed:
                places[record.partition] = f"{record.partition}:{record.offset + 1}"
                parts.append(f"id: {','.join(places.values())}\n".encode())
            elif count == len(records):
                parts.append(_long_id(positions))
            parts += (b"data: ", _one_line(text), b"\n\n")
        return b"".join(parts)


def _long_id(positions: Mapping[int, int]) -> bytes:
    """The line of an id with very many partitions; nothing if it is too long."""
    text = positions_text(positions) if len(positions) <= _ID_PARTITIONS_MAX else ""
    return f"id: {text}\n".encode() if 0 < len(text) <= _ID_BYTES_MAX else b""


def _one_line(json_text: bytes) -> bytes:
    """The same JSON without line ends, which would end the event; a record's JSON may have them."""
    return json_text.replace(b"\n", b" ").replace(b"\r", b" ")


async def _until_gone(receive: Receive) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()


async def _part(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


READ_FORMATS = [each.lower() for each in FORMATS]
