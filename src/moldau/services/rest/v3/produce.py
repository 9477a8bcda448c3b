"""Records of one request, written while the request still comes, each answered in turn.

    request    {"value": ...}{"value": ...}   ...      the body stays open as long as the client likes
    response   {"error_code":200,...}\\r\\n{"error_code":400,...}\\r\\n

The status is 200 once a record was read; whether it was written is in its own answer, and one that is wrong
does not end the others. What is no JSON ends the stream.

Records that came together are written together. Two things are bounded for each request: the record that has
not ended, and the records that were read and are not answered. A client that does not read its answers is not
read from either, once they fill the connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from moldau.client.admin.problem import KafkaProblem
from moldau.common.core.compact_json import compact_json
from moldau.services.http.answers import NOT_COMPRESSED
from moldau.services.http.bodies import parse_shallow_json, pieces
from moldau.services.http.context import context_of
from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.producing import Outcome, OutgoingRecord
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import INVALID_PAYLOAD, http_problem
from moldau.services.rest.v3.json_stream import JsonSplitter
from moldau.services.rest.v3.operations import Right, operation
from moldau.services.rest.v3.produced_record import ProducedRecord, read_record, report

UNANSWERED_BYTES_MAX = 1024 * 1024
_RECORD_HELD_BYTES = 700
"""A record beside its text: what it was parsed to, what is queued, its outcome and its answer."""
_GROUP_RECORDS_MAX = 200
_SLICE_BYTES = 4 * 1024
_INLINE_BYTES_MAX = 128 * 1024
_SEPARATOR = b"\r\n"

Entry = ProducedRecord | HttpProblem
"""A record, or why what came is none."""


@operation(
    "POST",
    "/clusters/{cluster_id}/topics/{topic_name}/records",
    "produceRecord",
    "Write records: one, or a stream of them, each answered in turn",
    tag="Records (v3)",
    right=Right("write", "topic", "topic_name"),
    answers={200: "ProduceResponse"},
    body="ProduceRequest",
)
async def produce(call: Call) -> Response:
    return _Answers(_Stream(call))


class _Group:
    """Records that came together, and their outcomes."""

    def __init__(self, entries: Sequence[Entry], size_bytes: int) -> None:
        self.entries = entries
        self.size_bytes = size_bytes
        self.outcomes: asyncio.Future[list[Outcome]] | None = None


class _Stream:
    """Reads records and has them written; the answers come out in the order of the records."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._topic = call.path["topic_name"]
        self._may_write = partial(call.may, "write", "subject")
        self._context = context_of(call.request)
        self._splitter = JsonSplitter(self._context.body_bytes_max, self._context.json_depth_max)
        self._groups: deque[_Group] = deque()
        self._unanswered_bytes = 0
        self._changed = asyncio.Event()
        self._ended = False
        lasts_ms = call.service.settings.streaming_connection_max_duration_ms
        self._ends = asyncio.get_running_loop().time() + lasts_ms / 1000

    async def answers(self) -> AsyncGenerator[bytes]:
        """The answers, as JSON texts. HttpProblem before the first if the request has no record at all."""
        reading = asyncio.ensure_future(self._read())
        try:
            while (each := await self._next_group()) is not None:
                outcomes = await each.outcomes if each.outcomes is not None else []
                yield self._shown(each.entries, outcomes)
                self._hold(-each.size_bytes)
            await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)  # the client may have gone
            for group in self._groups:
                if group.outcomes is not None:
                    group.outcomes.cancel()

    async def _next_group(self) -> _Group | None:
        """The group whose turn it is, once there is one; None at the end."""
        while not self._groups:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._groups.popleft()

    async def _read(self) -> None:
        count = 0
        try:
            async for piece in self._pieces():
                for start in range(0, len(piece), _SLICE_BYTES):
                    count += await self._take(piece[start : start + _SLICE_BYTES])
                    await asyncio.sleep(0)
            self._splitter.end()
            if not count:
                raise HttpProblem(INVALID_PAYLOAD, "Payload error. The request has no record.")
        except HttpProblem as problem:
            if not count and not self._groups:
                raise
            self._groups.append(_Group([problem], 0))
        finally:
            self._ended = True
            self._changed.set()

    async def _pieces(self) -> AsyncGenerator[bytes]:
        """The body, until the stream has lasted too long. HttpProblem 408."""
        body = pieces(self._call.request)
        loop = asyncio.get_running_loop()
        while loop.time() < self._ends:
            try:
                async with asyncio.timeout_at(self._ends):
                    piece = await anext(body, None)
            except TimeoutError:
                break
            if piece is None:
                return
            yield piece
        raise HttpProblem(
            408,
            "Streaming connection open for longer than allowed: what comes now is not written "
            "(streaming.connection.max.duration.ms).",
        )

    async def _take(self, data: bytes) -> int:
        """Take some bytes of the body; the number of records that they completed."""
        held = self._splitter.unfinished_bytes
        texts = self._splitter.feed(data)
        self._account(self._splitter.unfinished_bytes - held)
        for start in range(0, len(texts), _GROUP_RECORDS_MAX):
            part = texts[start : start + _GROUP_RECORDS_MAX]
            size_bytes = sum(map(len, part)) + _RECORD_HELD_BYTES * len(part)
            await self._room_for(size_bytes)
            self._hold(size_bytes)
            await self._write(part, size_bytes)
        return len(texts)

    async def _room_for(self, size_bytes: int) -> None:
        while self._unanswered_bytes and self._unanswered_bytes + size_bytes > UNANSWERED_BYTES_MAX:
            self._changed.clear()
            await self._changed.wait()

    async def _write(self, texts: Sequence[bytes], size_bytes: int) -> None:
        group = _Group([await self._entry(text) for text in texts], size_bytes)
        outgoing = [each.outgoing for each in group.entries if isinstance(each, ProducedRecord)]
        if outgoing:
            group.outcomes = await self._begun(outgoing)
        self._groups.append(group)
        self._changed.set()

    async def _begun(self, records: Sequence[OutgoingRecord]) -> asyncio.Future[list[Outcome]]:
        """The outcomes to come of records that are queued for Kafka, behind those of the groups before."""
        try:
            return await self._call.service.producers.begin(self._topic, records)
        except KafkaProblem as problem:
            failed: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
            failed.set_result([problem] * len(records))
            return failed

    async def _entry(self, text: bytes) -> Entry:
        try:
            self._call.service.produce_limits.check(len(text))
            if len(text) <= _INLINE_BYTES_MAX:
                body = parse_shallow_json(text)
            else:
                body = await asyncio.to_thread(parse_shallow_json, text)
            return await read_record(self._call.service.schemas, self._topic, body, self._may_write)
        except HttpProblem as wrong:
            return wrong

    def _shown(self, entries: Sequence[Entry], outcomes: Sequence[Outcome]) -> bytes:
        written = iter(outcomes)
        parts = []
        for each in entries:
            parts.append(compact_json(self._answer(each, written)))
            parts.append(_SEPARATOR)
        return b"".join(parts)

    def _answer(self, entry: Entry, outcomes: Any) -> dict[str, Any]:
        problem = entry
        if isinstance(entry, ProducedRecord):
            outcome = next(outcomes)
            if not isinstance(outcome, KafkaProblem):
                return {"error_code": 200, **report(self._call.cluster_id, self._topic, entry, outcome)}
            problem = http_problem(outcome)
        assert isinstance(problem, HttpProblem)
        return {"error_code": problem.error_code, "message": problem.message}

    def _hold(self, size_bytes: int) -> None:
        self._unanswered_bytes += size_bytes
        self._account(size_bytes)
        self._changed.set()

    def _account(self, size_bytes: int) -> None:
        if size_bytes > 0:
            self._context.hold(size_bytes)
        elif size_bytes < 0:
            self._context.release(-size_bytes)


class _Answers(Response):
    """The response begins with the first answer, so that a request without a record has another status."""

    def __init__(self, stream: _Stream) -> None:
        super().__init__()
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False
        async with aclosing(self._stream.answers()) as answers:
            async for answer in answers:
                if not begun:
                    headers = [(b"content-type", b"application/json"), NOT_COMPRESSED]
                    await send({"type": "http.response.start", "status": 200, "headers": headers})
                    begun = True
                await send({"type": "http.response.body", "body": answer, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
