"""Answers that go on: the live tail of a topic as server-sent events, and exports.

The tail's events are rows of the page's table, made by the same template as the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from moldau.services.console.messages.exporting import FORMATS, RECORDS_MAX, exported
from moldau.services.console.messages.positions import STARTS, newest
from moldau.services.console.messages.tailing import tail
from moldau.services.console.pages.call import Call, Console
from moldau.services.console.pages.messages import look_of, partition_of, row_json, spans_of
from moldau.services.console.pages.rendering import environment
from moldau.services.console.pages.routes import require_login
from moldau.services.http.answers import live_answer
from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.reading import TooManyReaders


class Streams:
    """The routes; `ending` is set when the server stops."""

    def __init__(self, console: Console, ending: Callable[[], asyncio.Event]) -> None:
        self._console = console
        self._ending = ending

    def routes(self) -> list[BaseRoute]:
        """Tail and export."""
        return [
            Route("/topics/{topic}/tail", self._tail, methods=["GET"]),
            Route("/topics/{topic}/export", self._export, methods=["GET"]),
            Route("/api/topics/{topic}/export", self._export, methods=["GET"]),
        ]

    async def _tail(self, request: Request) -> Response:
        call = Call(self._console, request)
        require_login(call)
        topic = await call.topic()
        look = look_of(call, topic.name)
        ends = await self._console.cluster.ends(topic, partition_of(call, topic))
        if not ends:
            raise HttpProblem(503, f"No partition of {topic.name} has a leader.")
        batches = tail(
            self._console.cluster.readers,
            topic.name,
            {index: each.end for index, each in ends.items()},
            look,
            self._ending(),
        )
        try:  # opens the reader: a refusal is an answer of its own
            first = asyncio.ensure_future(anext(batches))
            await asyncio.wait({first}, timeout=0.05)
            if first.done() and first.exception() is not None:
                first.result()
        except TooManyReaders:
            raise HttpProblem(
                429, "Too many readings of records are under way: try again in a moment."
            ) from None
        return live_answer(_events(topic.name, first, batches), "text/event-stream")

    async def _export(self, request: Request) -> Response:
        call = Call(self._console, request)
        require_login(call)
        topic = await call.topic()
        form = call.choice("format", tuple(FORMATS), "jsonl")
        limit = call.number("limit", RECORDS_MAX, 1, RECORDS_MAX)
        look = look_of(call, topic.name)
        ends = await self._console.cluster.ends(topic, partition_of(call, topic))
        start = call.choice("from", STARTS, "oldest")
        spans = await spans_of(call, topic, ends, start)
        if start == "newest":
            spans = newest(spans, limit)
        pieces = exported(self._console.cluster.readers, topic.name, spans, look, form, limit)
        try:
            head = await anext(pieces, b"")
        except TooManyReaders:
            raise HttpProblem(
                429, "Too many readings of records are under way: try again in a moment."
            ) from None
        name = quote(f"{topic.name}.{form}")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Cache-Control": "no-store",
        }
        return StreamingResponse(_joined(head, pieces), 200, headers, FORMATS[form])


async def _joined(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if head:
        yield head
    async for piece in rest:
        yield piece


async def _events(
    topic: str, first: asyncio.Future[Any], batches: AsyncIterator[Any]
) -> AsyncIterator[bytes]:
    rows = environment().get_template("message_rows.html")
    missed = scanned = 0
    try:
        yield event("state", "connected")
        batch = await first
        while True:
            scanned += batch.scanned
            missed += batch.left_out
            if batch.rows:
                shown = [row_json(row) for row in reversed(batch.rows)]
                yield event("rows", rows.render(rows=shown, topic={"name": topic}))
            said = f"{scanned:,} looked at" + (f", {missed:,} not shown: too many a second" if missed else "")
            yield event("state", said)
            batch = await anext(batches)
    except StopAsyncIteration:
        yield event("state", "the console stops")
    finally:
        if not first.done():
            first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        close = getattr(batches, "aclose", None)
        if close is not None:
            await close()


def event(name: str, data: str) -> bytes:
    """A server-sent event."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode("utf-8", "replace")
