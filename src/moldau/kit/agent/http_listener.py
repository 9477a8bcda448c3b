"""HTTP on loopback: messages in, status and metrics out.

    POST /topics/TOPIC?key=K     the body is one message
    POST /topics/TOPIC?lines     every line of the body is one
    GET  /status   /metrics   /health

200 when all is on the disk; 400 no message, 413 too large, 429 over the quota, 503 no room or no disk, with a
JSON body that says why. Browsers are kept out: a request with an Origin, or whose Host is no name of
loopback, is refused, as any web page could send it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import cast
from urllib.parse import parse_qs, unquote, urlsplit

import h11

from moldau.kit.agent.connections import Connections
from moldau.kit.agent.intake import Origin, Outcome
from moldau.kit.agent.message import BadMessage, Message, check_topic
from moldau.kit.agent.reading import Reading

LINES_MAX = 10_000
LOOPBACK = re.compile(r"((localhost|\[::1\]|127(\.\d{1,3}){3})(:\d+)?)?", re.IGNORECASE)
STATUS_OF = {
    "bad_message": 400,
    "too_large": 413,
    "quota": 429,
    "too_many_topics": 429,
}
"""The status code of a refusal; 503 for all others."""

Reply = tuple[int, str, bytes]
"""Status, content type, body."""


def json_reply(status: int, content: object) -> Reply:
    """A reply with a JSON body."""
    return status, "application/json", json.dumps(content).encode() + b"\n"


class HttpConnection(asyncio.Protocol):
    """One client of the HTTP port. Requests are handled one after the other."""

    def __init__(self, connections: Connections, pages: dict[str, Callable[[], Reply]]) -> None:
        self._all = connections
        self._pages = pages
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=16_384)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._too_large = False
        self._answering = False
        self._failed = False
        self._reading = Reading()
        self.partial_since_seconds = float("inf")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses of asyncio's
        self._reading.begin(self._transport)
        if not self._all.add(self):
            self._transport.write(b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self._transport.close()
            return
        self.partial_since_seconds = time.monotonic()  # a connection that asks nothing is closed, too
        if not self._all.intake.has_room:
            self.pause()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._reading.end()
        self._all.remove(self)
        self._drop_body()

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            self._go_on()
        except h11.RemoteProtocolError as problem:
            self._fail(problem.error_status_hint, str(problem))
        if self._answering:
            self._reading.stop("answer")  # or further requests would pile up here

    def eof_received(self) -> bool:
        return self._answering  # the answer is still sent

    def _go_on(self) -> None:
        while not self._answering and not self._failed and self._transport is not None:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._request = event
                self._drop_body()
                self._too_large = False
                if self._http.they_are_waiting_for_100_continue:
                    self._write(
                        self._http.send(h11.InformationalResponse(status_code=100, headers=[], reason=b""))
                    )
            elif isinstance(event, h11.Data):
                self._take_body(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self.partial_since_seconds = float("inf")
                self._answer()
            elif event is h11.PAUSED:
                if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
                    self._http.start_next_cycle()
                else:
                    return
            else:
                return

    def _take_body(self, data: bytes) -> None:
        self.partial_since_seconds = time.monotonic()
        if self._too_large:
            return
        if len(self._body) + len(data) > self._all.settings.message_bytes_max + 65_536:
            self._drop_body()
            self._too_large = True
        elif not self._all.may_hold(len(data)):
            self._fail(503, "too much unfinished input: try again later")
        else:
            self._body += data

    def _drop_body(self) -> None:
        self._all.partial_bytes -= len(self._body)
        self._body = bytearray()

    # -- answers -------------------------------------------------------------------------------------

    def _answer(self) -> None:
        assert self._request is not None
        self._answering = True
        url = urlsplit(self._request.target.decode("latin-1"))
        method = self._request.method
        headers = {name.lower(): value for name, value in self._request.headers}
        if b"origin" in headers or not _is_loopback(headers.get(b"host", b"")):
            self._reply(json_reply(403, {"error": "requests of web pages are refused"}))
        elif method == b"POST" and url.path.startswith("/topics/"):
            self._submit(unquote(url.path[len("/topics/") :]), parse_qs(url.query, keep_blank_values=True))
        elif method == b"GET" and url.path in self._pages:
            self._reply(self._pages[url.path]())
        else:
            known = ["POST /topics/TOPIC", *(f"GET {page}" for page in self._pages)]
            self._reply(json_reply(404, {"error": "there is no such page", "pages": known}))

    def _submit(self, topic: str, query: dict[str, list[str]]) -> None:
        try:
            check_topic(topic)
            if self._too_large:
                raise BadMessage("")
        except BadMessage as problem:
            self._all.counters.of("").refused["too_large" if self._too_large else "bad_message"] += 1
            limit = self._all.settings.message_bytes_max
            text = f"a body may have {limit} bytes" if self._too_large else str(problem)
            self._reply(json_reply(413 if self._too_large else 400, {"error": text}))
            return
        key = query["key"][0].encode(errors="replace") if "key" in query else None
        body = bytes(self._body)
        self._drop_body()
        values = [line.rstrip(b"\r") for line in body.split(b"\n") if line] if "lines" in query else [body]
        if not values or len(values) > LINES_MAX:
            self._reply(json_reply(400, {"error": f"send 1 to {LINES_MAX} lines"}))
            return
        outcomes: list[Outcome] = []

        def answer(outcome: Outcome) -> None:
            outcomes.append(outcome)
            if len(outcomes) == len(values):
                self._reply(_summary(topic, outcomes))

        origin = Origin()
        now_ms = time.time_ns() // 1_000_000
        for value in values:
            self._all.intake.submit(Message(topic, value, key, timestamp_ms=now_ms), answer, origin)

    def _reply(self, reply: Reply) -> None:
        if self._transport is None or self._failed:
            return
        status, content_type, body = reply
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        response = h11.Response(status_code=status, headers=headers)
        self._write(self._http.send(response), self._http.send(h11.Data(data=body)))
        self._write(self._http.send(h11.EndOfMessage()))
        self._answering = False
        self._reading.go_on("answer")
        if self._http.our_state is not h11.DONE:
            self._transport.close()
            return
        self.partial_since_seconds = time.monotonic()
        if self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        try:
            self._go_on()
        except h11.RemoteProtocolError as problem:
            self._fail(problem.error_status_hint, str(problem))

    def _fail(self, status: int, text: str) -> None:
        """Answer with an error and close. What came of the request is no message."""
        if self._transport is None or self._failed:
            return
        self._failed = True
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps({"error": text}).encode() + b"\n"
            headers = [("Content-Length", str(len(body))), ("Connection", "close")]
            self._write(self._http.send(h11.Response(status_code=status, headers=headers)))
            self._write(self._http.send(h11.Data(data=body)))
        self._transport.close()

    def _write(self, *pieces: bytes | None) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(piece for piece in pieces if piece))

    # -- flow ----------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._reading.stop("writing")

    def resume_writing(self) -> None:
        self._reading.go_on("writing")

    def pause(self) -> None:
        """Stop reading: the intake is full."""
        self._reading.stop("intake")

    def resume(self) -> None:
        """Read again."""
        self._reading.go_on("intake")

    def close(self, why: str) -> None:
        """Answer with an error and close."""
        self._fail(503, why)


def _is_loopback(host: bytes) -> bool:
    return LOOPBACK.fullmatch(host.decode("latin-1")) is not None


def _summary(topic: str, outcomes: list[Outcome]) -> Reply:
    refused = [outcome for outcome in outcomes if outcome.reason]
    accepted = len(outcomes) - len(refused)
    if not refused:
        return json_reply(200, {"topic": topic, "accepted": accepted, "number": outcomes[-1].number})
    status = STATUS_OF.get(refused[0].reason, 503)
    return json_reply(
        status,
        {
            "error": refused[0].text,
            "reason": refused[0].reason,
            "accepted": accepted,
            "refused": len(refused),
        },
    )
