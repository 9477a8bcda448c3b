"""The second port: a small HTTP/1.1 server for a table of pages, on the broker's own event loop.

h11 reads the bytes; this file moves them, and bounds everything a stranger can cause: the size of a
request, how long it may take, how many connections there are, how much waits to be sent. GET and HEAD only;
keep-alive; one request of a connection at a time. A page given in pieces is sent in chunks, the loop
turning after each, so that a long page (metrics of 10,000 partitions) delays no Kafka request by more than
a piece.

Loaded only when the port opens, and h11 only with the first connection: neither costs the broker's start
anything. Not here: what the pages say (monitor/pages.py).
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.core.logs import SayOnce
from moldau.monitor.page import Ask, Page, Route, text_page

if TYPE_CHECKING:
    import h11

log = logging.getLogger("moldau.http")

_READ_BYTES = 16 * 1024
_BUSY_SECONDS_MAX = 0.001
_PAUSE_SECONDS = 0.0005
_METHODS = (b"GET", b"HEAD")


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What a client may cost."""

    head_bytes_max: int = 16 * 1024
    connections_max: int = 100
    request_seconds: float = 10.0
    idle_seconds: float = 75.0
    send_seconds: float = 30.0


class HttpServer:
    """Serves a table of pages on one address."""

    def __init__(self, routes: Mapping[str, Route], limits: HttpLimits | None = None) -> None:
        self.host = ""
        self.port = 0
        self.refused_count = 0
        self._routes = routes
        self._limits = limits or HttpLimits()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._say = SayOnce(log)

    @property
    def address(self) -> str:
        """host:port, with the port that was chosen if 0 was asked for."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    async def open(self, host: str = "", port: int = 0, *, sock: socket.socket | None = None) -> None:
        """Start to serve on an address (an empty host means all) or on a socket that listens already.

        OSError when the address is taken or not ours.
        """
        if sock is None:
            self._server = await asyncio.start_server(self._accept, host or None, port, limit=_READ_BYTES)
        else:
            self._server = await asyncio.start_server(self._accept, sock=sock, limit=_READ_BYTES)
        self.host = host or "0.0.0.0"
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop, and end every connection."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self._limits.connections_max:
            self.refused_count += 1
            self._say.warning(
                "full", "HTTP connections are refused: %d are open", self._limits.connections_max
            )
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _Exchange(self._routes, self._limits, reader, writer).run()
        except (OSError, TimeoutError):
            pass  # the client went away, or was too slow
        except asyncio.CancelledError:
            pass  # the server closes
        except Exception:
            log.exception("a page of the HTTP port failed: this is a bug")
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()


class _Exchange:
    """One connection: requests and answers in turn."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        limits: HttpLimits,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        import h11

        self._h11 = h11
        self._peer = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes_max)
        self._routes = routes
        self._limits = limits
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
            await self._answer(request)
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
        if isinstance(page.content, bytes):
            headers.append(("Content-Length", str(len(page.content))))
            pieces: Iterator[bytes] = iter((page.content,))
        else:
            pieces = page.content
        h11 = self._h11
        self._send(h11.Response(status_code=page.status, headers=headers, reason=_reason(page.status)))
        if not head_only:
            await self._send_pieces(pieces)
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
        now = asyncio.get_running_loop().time
        since = now()
        for piece in pieces:
            if piece:
                self._send(self._h11.Data(data=piece))
                await self._drain()
            if now() - since >= _BUSY_SECONDS_MAX:
                # Zero would only change places with what is ready; the pause lets requests come in.
                await asyncio.sleep(_PAUSE_SECONDS)
                since = now()

    def _send(self, event: "h11.Event") -> None:
        data: Any = self._peer.send(event)
        if data:
            self._writer.write(data)

    async def _drain(self) -> None:
        async with asyncio.timeout(self._limits.send_seconds):
            await self._writer.drain()

    async def _refuse(self, error: "h11.RemoteProtocolError") -> None:
        """The bytes are no HTTP: say so if an answer can still be given."""
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
