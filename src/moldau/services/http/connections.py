"""A connection of uvicorn's (httptools parses), with limits on what a client can cost.

uvicorn bounds bodies (it reads no further while 64 KiB wait) and waits for slow readers. It bounds
neither heads nor time, nor the number of connections; this file does:

    head bytes      431, and the connection ends
    head time       from its first byte; a connection that sends nothing ends after the idle timeout
    unread output   a client that reads nothing of its response for a while is cut off
    unread input    what still comes of a body after its response is thrown away, up to a limit
    connections     for one too many, the oldest idle one of the host that has most is closed; if none is
                    idle, the oldest whose body has not come yet, again of that host; else the new one
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = logging.getLogger("moldau.http")

PEER_CERTIFICATE = "moldau.peer_certificate"
"""The key of the client's certificate (DER) in the scope of a request; absent without one."""

IS_GONE = "moldau.is_gone"
"""The key of a function in the scope: whether the client has gone, so that nothing is sent for nobody."""

_THROWN_AWAY_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one connection, and of all."""

    head_bytes_max: int = 16 * 1024
    head_seconds: float = 10.0
    idle_seconds: float = 30.0
    send_seconds: float = 30.0
    connections_max: int = 1_000


class Counted(Protocol):
    """A connection that has a place among the open ones: of HTTP, or one that is not secured yet."""

    host: str

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        ...

    @property
    def is_unfinished(self) -> bool:
        """Whether the client still sends a request to which nothing was answered."""
        ...

    def abort(self) -> None:
        """End it at once."""
        ...


@dataclass(slots=True)
class Connections:
    """The open connections of a server, the oldest first, and what became of others."""

    limits: ConnectionLimits
    open: dict[Counted, None] = field(default_factory=dict)
    accepted_count: int = 0
    evicted_count: int = 0
    cut_off_count: int = 0

    def admit(self, new: Counted, instead_of: Counted | None = None) -> bool:
        """Make room for a new connection; False: there is none. `instead_of` gives its place up."""
        if instead_of is not None:
            if instead_of not in self.open:  # evicted
                return False
            del self.open[instead_of]
            self.open[new] = None
            return True
        self.accepted_count += 1
        if len(self.open) >= self.limits.connections_max and not self._evict():
            self.evicted_count += 1
            return False
        self.open[new] = None
        return True

    def _evict(self) -> bool:
        candidates = [each for each in self.open if each.is_idle] or [
            each for each in self.open if each.is_unfinished
        ]
        if not candidates:
            return False
        counts = Counter(each.host for each in self.open)
        victim = min(candidates, key=lambda each: -counts[each.host])  # of equal ones, the oldest
        del self.open[victim]
        victim.abort()
        self.evicted_count += 1
        return True


class LimitedConnection(HttpToolsProtocol):
    """One connection."""

    def __init__(self, shared: Connections, instead_of: Counted | None = None, **uvicorn: Any) -> None:
        """`instead_of` has kept the place of this connection so far."""
        super().__init__(**uvicorn)
        self.host = ""
        self._instead_of = instead_of
        self._shared = shared
        self._limits = shared.limits
        self._in_head = False
        self._unfinished_head_bytes = 0
        self._head_bytes = 0
        self._thrown_away_bytes = 0
        self._certificate: bytes | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def is_unfinished(self) -> bool:
        """Whether the body has not come to its end, and no response has begun, as that of a stream does."""
        return self.cycle is not None and self.cycle.more_body and not self.cycle.response_started

    def abort(self) -> None:
        """End it at once."""
        self.transport.abort()

    # -- the transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.host = self.client[0] if self.client else ""
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._certificate = tls.getpeercert(binary_form=True)
        instead_of, self._instead_of = self._instead_of, None
        if not self._shared.admit(self, instead_of):
            transport.abort()
            return
        self._start_head_timer(self._limits.idle_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.open.pop(self, None)
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; refuse heads that are too large, whether or not a line of them ever ends."""
        if self.parser is None or self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        if not self._in_head and self.is_idle:
            self._start_head_timer(self._limits.head_seconds)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # no protocol is changed to; the request is answered as it is
        except httptools.HttpParserError:
            if not self.transport.is_closing():
                self._refuse(400, "this is no HTTP request")
            return
        if self._in_head:
            self._unfinished_head_bytes += len(data)
            if self._unfinished_head_bytes > self._limits.head_bytes_max + len(data):
                self._refuse_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._send_timer is None:
            self._send_timer = self.loop.call_later(self._limits.send_seconds, self._cut_off)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._send_timer)
        self._send_timer = None

    def _cut_off(self) -> None:
        self._shared.cut_off_count += 1
        self.transport.abort()

    # -- the parser ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._unfinished_head_bytes = True, 0, 0
        self.scope[IS_GONE] = self.transport.is_closing  # type: ignore[literal-required]
        if self._certificate is not None:
            self.scope[PEER_CERTIFICATE] = self._certificate  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._unfinished_head_bytes, self._thrown_away_bytes = False, 0, 0
        _cancel(self._head_timer)
        self._head_timer = None
        if self.transport.is_closing():
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle is None or self.transport.is_closing():
            return
        if self.cycle.response_complete:
            self._thrown_away_bytes += len(body)
            if self._thrown_away_bytes > _THROWN_AWAY_BYTES_MAX:
                self.transport.abort()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.cycle is not None and not self.transport.is_closing():
            super().on_message_complete()

    def _count_head(self, count_bytes: int) -> None:
        self._head_bytes += count_bytes
        if self._head_bytes > self._limits.head_bytes_max:
            self._refuse_head()
            raise ValueError("the head is too large")  # ends the parsing of what was received

    # -- refusals and timers ------------------------------------------------------------------------

    def _refuse_head(self) -> None:
        if not self.transport.is_closing():
            self._refuse(431, f"the request's head is larger than {self._limits.head_bytes_max} bytes")

    def _refuse(self, status: int, message: str) -> None:
        """An error response, unless one is under way already; then the end."""
        if self.is_idle or self._in_head:
            body = f'{{"error_code":{status},"message":"{message}"}}'.encode()
            phrase = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}
            head = (
                f"HTTP/1.1 {status} {phrase[status]}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            if self.is_idle:
                self.transport.write(head.encode() + body)
        self.transport.close()

    def _start_head_timer(self, seconds: float) -> None:
        _cancel(self._head_timer)
        self._head_timer = self.loop.call_later(seconds, self._head_timeout)

    def _head_timeout(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        if self._in_head and self.is_idle:
            self._refuse(408, "the request's head does not come to its end")
        elif self.is_idle:
            self.transport.close()

    def _stop_timers(self) -> None:
        _cancel(self._head_timer)
        self._head_timer = None
        _cancel(self._send_timer)
        self._send_timer = None
        self._unset_keepalive_if_required()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def protocol_for(shared: Connections) -> Callable[..., LimitedConnection]:
    """What uvicorn makes connections with."""

    def make(**uvicorn: Any) -> LimitedConnection:
        return LimitedConnection(shared, **uvicorn)

    return make
