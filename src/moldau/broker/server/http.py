"""The HTTP port: a small HTTP/1.1 server for a table of pages, on the broker's event loop.

h11 parses; this file does the I/O and limits what clients can cost: request size, request time, number of
connections, unsent bytes. GET and HEAD only; keep-alive; one request of a connection at a time. A page given
in pieces is sent in chunks, the loop turning after each, so that a long page (metrics of 10,000 partitions)
delays no Kafka request by more than a piece, nor do many such pages.

A new connection is never refused: where all places are taken, the host with the most connections loses one,
first the oldest that is not being answered (it is idle, or its request does not end). A probe that asks at
once is answered before its turn comes, however many slow connections there are.

Imported only when the port opens, and h11 with the first connection, so that the broker starts faster. Not
here: what the pages say (monitor/pages.py).
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.broker.monitor.page import Ask, Page, Route, text_page
from moldau.common.core.clock import Clock
from moldau.common.core.logs import SayOnce
from moldau.common.core.network import Address
from moldau.common.core.slow_lane import SlowLane

if TYPE_CHECKING:
    import h11

log = logging.getLogger("moldau.http")

_READ_BYTES = 16 * 1024
_BUSY_SECONDS_MAX = 0.001
_PAUSE_SECONDS = 0.0005
_METHODS = (b"GET", b"HEAD")


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of what clients may cost."""

    head_bytes_max: int = 16 * 1024
    connections_max: int = 100
    request_seconds: float = 5.0
    idle_seconds: float = 75.0
    send_seconds: float = 30.0


class _Client:
    """One connection, as the server counts it."""

    __slots__ = ("answering", "host", "task", "transport")

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        self.host: str = peer[0] if peer else ""
        self.transport = writer.transport
        self.answering = False
        self.task: asyncio.Task[None] | None = None


class HttpServer:
    """Serves a table of pages on one address."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        clock: Clock,
        now_seconds: Callable[[], float],
        limits: HttpLimits | None = None,
        wrap: Callable[[asyncio.Protocol], asyncio.BaseProtocol] | None = None,
    ) -> None:
        """`now_seconds` is a fine counter, by which long pages are cut; `wrap` puts TLS below connections."""
        self.evicted_count = 0
        self._routes = routes
        self._limits = limits or HttpLimits()
        self._wrap = wrap
        self._address: Address | None = None
        self._now_seconds = now_seconds
        self._clients: dict[_Client, None] = {}  # the oldest first
        self._tasks: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._lane = SlowLane(now_seconds=now_seconds)
        self._say = SayOnce(log, now_ms=clock.monotonic_ms)

    @property
    def port(self) -> int:
        """The port that is served."""
        return self._address.port if self._address is not None else 0

    async def serve(self, address: Address) -> None:
        """Answer whoever comes to this address, from now until `close`."""
        loop = asyncio.get_running_loop()

        def new_connection() -> asyncio.BaseProtocol:
            reader = asyncio.StreamReader(limit=_READ_BYTES, loop=loop)
            protocol = asyncio.StreamReaderProtocol(reader, self._accept, loop=loop)
            return protocol if self._wrap is None else self._wrap(protocol)

        self._address = address
        await address.serve(new_connection)

    async def close(self) -> None:
        """Stop, and end every connection."""
        if self._address is not None:
            self._address.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= self._limits.connections_max:
            self._evict()
        writer.transport.set_write_buffer_limits(high=0)  # what was drained has left
        client = _Client(writer)
        client.task = asyncio.get_running_loop().create_task(self._serve(client, reader, writer))
        self._clients[client] = None
        self._tasks[client.task] = None
        client.task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _evict(self) -> None:
        """Close one connection to make room for another."""
        counts = Counter(client.host for client in self._clients)
        victim = min(self._clients, key=lambda client: (-counts[client.host], client.answering))
        del self._clients[victim]
        victim.transport.abort()
        if victim.task is not None:
            victim.task.cancel()
        self.evicted_count += 1
        self._say.warning(
            ("full", victim.host),
            "closed the oldest HTTP connection of %s, which has %d, for a new one: %d are open at most",
            victim.host,
            counts[victim.host],
            self._limits.connections_max,
        )

    async def _serve(
        self, client: _Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            exchange = _Exchange(
                self._routes, self._limits, client, self._lane, self._now_seconds, reader, writer
            )
            await exchange.run()
        except (OSError, TimeoutError):
            pass  # the client went away, or was too slow
        except asyncio.CancelledError:
            pass  # the server closes, or another client needs the place
        except Exception:
            log.exception("a page of the HTTP port failed: this is a bug")
        finally:
            self._clients.pop(client, None)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()


class _Exchange:
    """One connection: requests and answers in turn."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        limits: HttpLimits,
        client: _Client,
        lane: SlowLane,
        now_seconds: Callable[[], float],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        import h11

        self._h11 = h11
        self._peer = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes_max)
        self._routes = routes
        self._limits = limits
        self._client = client
        self._lane = lane
        self._now_seconds = now_seconds
        self._reader = reader
        self._writer = writer

    async def run(self) -> None:
        """Answer until the client closes, errs, or asks to close."""
        wait_seconds = self._limits.request_seconds
        while True:
            try:
                request = await self._next_request(wait_seconds)
            except self._h11.RemoteProtocolError as error:
                await self._refuse(error)
                return
            if request is None:
                return
            self._client.answering = True
            await self._answer(request)
            self._client.answering = False
            if self._peer.our_state is not self._h11.DONE or self._peer.their_state is not self._h11.DONE:
                return
            self._peer.start_next_cycle()
            wait_seconds = self._limits.idle_seconds

    async def _next_request(self, first_byte_seconds: float) -> "h11.Request | None":
        """The next request; None when the connection is over, or sends nothing for too long."""
        request: h11.Request | None = None
        deadline = asyncio.get_running_loop().time() + first_byte_seconds
        body_bytes = 0
        while True:
            event = self._peer.next_event()
            if event is self._h11.NEED_DATA:
                if self._peer.they_are_waiting_for_100_continue:
                    return request  # a body is on offer, which no page takes
                async with asyncio.timeout_at(deadline):
                    data = await self._reader.read(_READ_BYTES)
                if data and request is None and self._peer.trailing_data[0] == b"":
                    # The clock of a request runs from its first byte, whatever pause came before it.
                    deadline = asyncio.get_running_loop().time() + self._limits.request_seconds
                self._peer.receive_data(data)
            elif isinstance(event, self._h11.Request):
                request = event
            elif isinstance(event, self._h11.Data):
                body_bytes += len(event.data)
                if body_bytes > self._limits.head_bytes_max:
                    return request  # not read to its end: the connection closes after the answer
            elif isinstance(event, self._h11.EndOfMessage):
                return request
            else:
                return None  # closed, or paused by a request that was not read to its end

    async def _answer(self, request: "h11.Request") -> None:
        page = self._page(request)
        head_only = request.method == b"HEAD"
        headers = [("Content-Type", page.content_type), ("Cache-Control", "no-store")]
        if page.status == 405:
            headers.append(("Allow", "GET, HEAD"))
        if page.status == 401:
            headers += [("WWW-Authenticate", 'Basic realm="moldau"'), ("WWW-Authenticate", "Bearer")]
        if isinstance(page.content, bytes):
            headers.append(("Content-Length", str(len(page.content))))
        h11 = self._h11
        self._send(h11.Response(status_code=page.status, headers=headers, reason=_reason(page.status)))
        if not head_only:
            if isinstance(page.content, bytes):
                self._send(h11.Data(data=page.content))
            else:
                await self._send_pieces(page.content)
        self._send(h11.EndOfMessage())
        await self._drain()

    def _page(self, request: "h11.Request") -> Page:
        ask = _ask(request)
        route = self._routes.get(ask.path) or self._routes.get(ask.path.rstrip("/"))
        if request.method not in _METHODS:
            return text_page(f"only GET and HEAD are answered here, not {request.method.decode()}", 405)
        if route is None:
            known = "\n".join(f"    {path}" for path in self._routes)
            return text_page(f"there is no {ask.path} here; there are\n{known}", 404)
        try:
            return route(ask)
        except Exception:
            log.exception("the page %s failed: this is a bug", ask.path)
            return text_page(f"the page {ask.path} failed: the broker's log has the reason", 500)

    async def _send_pieces(self, pieces: Iterator[bytes]) -> None:
        over = False
        while not over:
            await self._lane.wait()  # of all pages, one is worked on in a turn of the loop
            some, over = self._some_pieces(pieces)
            if some:
                self._send(self._h11.Data(data=some))
                await self._drain()
            if not over:
                # Zero would only change places with what is ready; the pause lets requests come in.
                await asyncio.sleep(_PAUSE_SECONDS)

    def _some_pieces(self, pieces: Iterator[bytes]) -> tuple[bytes, bool]:
        """What a millisecond of work gives, and whether that was the last."""
        ends_seconds = self._now_seconds() + _BUSY_SECONDS_MAX
        some: list[bytes] = []
        for piece in pieces:
            some.append(piece)
            if self._now_seconds() >= ends_seconds:
                return b"".join(some), False
        return b"".join(some), True

    def _send(self, event: "h11.Event") -> None:
        data: Any = self._peer.send(event)
        if self._writer.transport.is_closing():
            raise ConnectionResetError("the client has gone")  # a write would fail in the transport's own way
        if data:
            self._writer.write(data)

    async def _drain(self) -> None:
        async with asyncio.timeout(self._limits.send_seconds):
            await self._writer.drain()

    async def _refuse(self, error: "h11.RemoteProtocolError") -> None:
        """The bytes are not HTTP: answer 400 if that is still possible."""
        if self._peer.our_state not in (self._h11.IDLE, self._h11.SEND_RESPONSE):
            return
        body = f"not a request that this port understands: {error}\n".encode()
        with contextlib.suppress(self._h11.LocalProtocolError):
            self._send(
                self._h11.Response(
                    status_code=error.error_status_hint,
                    reason=_reason(error.error_status_hint),
                    headers=[
                        ("Content-Type", "text/plain; charset=utf-8"),
                        ("Content-Length", str(len(body))),
                        ("Connection", "close"),
                    ],
                )
            )
            self._send(self._h11.Data(data=body))
            self._send(self._h11.EndOfMessage())
            await self._drain()


def _reason(status: int) -> str:
    from http import HTTPStatus

    return HTTPStatus(status).phrase


def _ask(request: "h11.Request") -> Ask:
    from urllib.parse import parse_qsl, unquote, urlsplit

    target = request.target.decode("latin-1")
    try:
        parts = urlsplit(target if "://" in target else f"http://host{target}")
    except ValueError:
        return Ask(target)
    return Ask(
        unquote(parts.path) or "/",
        dict(parse_qsl(parts.query, keep_blank_values=True)),
        {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers},
    )
