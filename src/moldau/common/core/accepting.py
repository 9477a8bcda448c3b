"""Accepts connections a few at a time, and not at all while it is told to wait.

asyncio's and uvloop's servers accept all that is there at once: a thousand clients that come together hold
the event loop for a tenth of a second. Here other sockets have their turn after `ACCEPTS_PER_TURN`. While it
waits, new connections stay in the system's queue, as in Kafka when a limit is reached.

The system drops those for whom its queue has no place, and they try again after 1, 3, 7 s and so on: with
Kafka's usual queue of 50 the last of a thousand was let in after a minute. So the queue has `QUEUE_MIN`
places, and more where socket.listen.backlog.size says so.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any

log = logging.getLogger("moldau.server")

ACCEPTS_PER_TURN = 8
QUEUE_MIN = 1024
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_AGAIN_SECONDS = 1.0


class Bound:
    """Sockets that are bound, one for each interface, and listen when they are served."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, backlog: int) -> None:
        self.host = host
        self.port = 0
        self._loop = loop
        self._backlog = max(backlog, QUEUE_MIN)
        self._sockets: list[socket.socket] = []
        self._make_protocol: Callable[[], asyncio.BaseProtocol] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waits = False  # as it is told to
        self._lacks = False  # descriptors, for a second
        self._closed = False

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
        self._watch()

    def wait(self) -> None:
        """Accept nothing until `go_on`."""
        self._waits = True
        self._watch()

    def go_on(self) -> None:
        """Accept again."""
        self._waits = False
        self._watch()

    def close(self) -> None:
        """Give the addresses back; accepted connections stay, but for those that have not begun."""
        self._closed = True
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()

    def _watch(self) -> None:
        """Listen to the sockets if there is no reason against it."""
        for sock in self._sockets:
            if self._make_protocol is None or self._waits or self._lacks:
                self._loop.remove_reader(sock.fileno())
            else:
                self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _go_on_after_lack(self) -> None:
        self._lacks = False
        self._watch()

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
                self._lacks = True
                self._watch()
                self._loop.call_later(_AGAIN_SECONDS, self._go_on_after_lack)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._begin(make_protocol, accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(self, make_protocol: Callable[[], asyncio.BaseProtocol], sock: socket.socket) -> None:
        if self._closed:
            sock.close()
            return
        try:
            transport, _ = await self._loop.connect_accepted_socket(make_protocol, sock)
        except OSError:
            sock.close()  # the client has gone already
        except Exception:
            log.exception("a new connection failed: this is a bug")
            sock.close()
        else:
            if self._closed:
                transport.abort()  # whoever closed the address did not know of it
