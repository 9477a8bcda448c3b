"""Accepts the connections of an https listener: they count from then on, and not from their handshake on.

An event loop that accepts and secures by itself shows a connection when its handshake is over: who opens
connections and says nothing would cost buffers and descriptors that no limit knows of. Here each takes its
place among the open ones when it is accepted, where it may be evicted as an idle one, and leaves it to the
HTTP connection:

    accepted -> Handshake, counted -> secured -> LimitedConnection in its place
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from moldau.services.http.connections import Connections

log = logging.getLogger("moldau.http")

_AGAIN_SECONDS = 1.0


class Handshake:
    """A connection that is accepted and not secured yet."""

    is_idle = True
    is_unfinished = True

    def __init__(self, host: str) -> None:
        self.host = host
        self.securing: asyncio.Task[None] | None = None

    def abort(self) -> None:
        """End it."""
        if self.securing is not None:
            self.securing.cancel()


class TlsAcceptor:
    """Accepts on one listening socket, from its making on."""

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        shared: Connections,
        make: Callable[[Handshake], Any],
    ) -> None:
        """`make` makes the HTTP connection that takes the place of a handshake."""
        self._context = context
        self._shared = shared
        self._make = make
        self._handshakes: set[Handshake] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listening))

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except ConnectionError:  # gone before it was accepted
                continue
            except OSError as problem:
                log.warning("no connection can be accepted: %s; trying again in a second", problem.strerror)
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            self._begin(accepted, str(address[0]))
            await asyncio.sleep(0)  # accepting does not wait where many have come

    def _begin(self, accepted: socket.socket, host: str) -> None:
        handshake = Handshake(host)
        if not self._shared.admit(handshake):
            accepted.close()
            return
        accepted.setblocking(False)

        def ended(securing: asyncio.Task[None]) -> None:
            self._handshakes.discard(handshake)
            self._shared.open.pop(handshake, None)
            if securing.cancelled():
                accepted.close()  # perhaps before it had a transport

        self._handshakes.add(handshake)
        handshake.securing = asyncio.get_running_loop().create_task(self._secure(accepted, handshake))
        handshake.securing.add_done_callback(ended)

    async def _secure(self, accepted: socket.socket, handshake: Handshake) -> None:
        with contextlib.suppress(OSError):  # no TLS, no agreement, gone, too slow
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(handshake),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._shared.limits.head_seconds,
                ssl_shutdown_timeout=self._shared.limits.head_seconds,
            )

    async def close(self) -> None:
        """Accept nothing more, and end the handshakes."""
        self._accepting.cancel()
        tasks = [each.securing for each in self._handshakes if each.securing is not None]
        for each in tasks:
            each.cancel()
        await asyncio.gather(self._accepting, *tasks, return_exceptions=True)
