"""Accepts connections a few at a time, and not at all while it is told to wait.

asyncio's and uvloop's servers accept all that is there at once: a thousand clients that come together hold
the event loop for a tenth of a second. Here other sockets have their turn after `ACCEPTS_PER_TURN`. While it
waits, new connections stay in the system's queue (`socket.listen.backlog.size`), as in Kafka when a limit is
reached.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any

log = logging.getLogger("moldau.server")

ACCEPTS_PER_TURN = 8
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_AGAIN_SECONDS = 1.0


class Bound:
    """Sockets that are bound, one for each interface, and listen when they are served."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, backlog: int) -> None:
        self.host = host
        self.port = 0
        self._loop = loop
        self._backlog = backlog
        self._sockets: list[socket.socket] = []
        self._make_protocol: Callable[[], asyncio.BaseProtocol] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waits = False

    @classmethod
    async def make(cls, loop: asyncio.AbstractEventLoop, host: str, port: int, backlog: int) -> "Bound":
        """Bind; an empty host means every interface. OSError."""
        bound = cls(loop, host, backlog)
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            interfaces = dict.fromkeys(found)
            for family, _, _, _, address in interfaces:
                bound._bind(family, address, only=len(interfaces) == 1)
        except BaseException:
            bound.close()
            raise
        if not bound._sockets:
            raise OSError(errno.EADDRNOTAVAIL, "no interface can be listened on")
        return bound

    def _bind(self, family: int, address: Any, *, only: bool) -> None:
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            if only:
                raise
            return  # a machine without IPv6
        self._sockets.append(sock)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            sock.bind((address[0], self.port or address[1], *address[2:]))
        except OSError as error:
            if only or error.errno != errno.EADDRNOTAVAIL:
                raise
            self._sockets.remove(sock)  # a machine whose IPv6 is switched off
            sock.close()
            return
        self.port = sock.getsockname()[1]

    async def serve(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """Accept from now on. OSError: another program was the first to listen."""
        self._make_protocol = make_protocol
        for sock in self._sockets:
            sock.listen(self._backlog)
        if not self._waits:
            self._watch()

    def wait(self) -> None:
        """Accept nothing until `go_on`."""
        if not self._waits:
            self._waits = True
            for sock in self._sockets:
                self._loop.remove_reader(sock.fileno())

    def go_on(self) -> None:
        """Accept again."""
        if self._waits:
            self._waits = False
            if self._make_protocol is not None:
                self._watch()

    def close(self) -> None:
        """Give the addresses back; accepted connections stay."""
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()

    def _watch(self) -> None:
        for sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        make_protocol = self._make_protocol
        assert make_protocol is not None
        for _ in range(ACCEPTS_PER_TURN):
            if self._waits or sock.fileno() < 0:
                return
            try:
                accepted, _ = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    raise
                log.warning("no connection can be accepted: %s; trying again in a second", error.strerror)
                self.wait()
                self._loop.call_later(_AGAIN_SECONDS, self.go_on)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(_begin(self._loop, make_protocol, accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _begin(
    loop: asyncio.AbstractEventLoop, make_protocol: Callable[[], asyncio.BaseProtocol], sock: socket.socket
) -> None:
    try:
        await loop.connect_accepted_socket(make_protocol, sock)
    except OSError:
        sock.close()  # the client has gone already
    except Exception:
        log.exception("a new connection failed: this is a bug")
        sock.close()
