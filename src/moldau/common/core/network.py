"""Sockets, as an injected dependency; a simulation passes a network in memory, with delays, lost connections
and cut links from a seed.

An address is bound before anything else is started, so that a port in use leaves nothing behind, and served
when everything is ready:

    bind      bound; connections are refused
    listen    bound; connections wait until they are served
    serve     each connection gets a protocol of its own

Protocols and transports are those of asyncio. Not here: the protocols (server/, client/).
"""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from moldau.common.core.accepting import Bound

if TYPE_CHECKING:
    import ssl

AnyProtocol = TypeVar("AnyProtocol", bound=asyncio.BaseProtocol)
MakeProtocol: TypeAlias = Callable[[], asyncio.BaseProtocol]


class Address(Protocol):
    """An address that this broker holds."""

    @property
    def host(self) -> str:
        """The host that was asked for; empty for every interface."""

    @property
    def port(self) -> int:
        """The port, also where any free one was asked for."""

    async def serve(self, make_protocol: MakeProtocol) -> None:
        """Accept connections from now on, each with a protocol of its own. Called once.

        OSError when another program has begun to listen on a bound address first.
        """

    def close(self) -> None:
        """Give the address back; connections that were accepted stay. Closing twice does nothing."""


class BoundAddress(Address, Protocol):
    """An address whose connections may be made to wait."""

    def wait(self) -> None:
        """Accept no connections until `go_on`; they wait in the system's queue."""

    def go_on(self) -> None:
        """Accept connections again."""


class Network(Protocol):
    """What a broker reaches others by, and is reached by."""

    async def bind(self, host: str, port: int, backlog: int) -> BoundAddress:
        """Take an address, on which connections are refused until it is served.

        An empty host means every interface; port 0 any free one. OSError: it is taken, or not this machine's.
        """

    def listen(self, host: str, port: int, backlog: int) -> Address:
        """As `bind`; connections wait until they are served."""

    async def connect(
        self,
        host: str,
        port: int,
        make_protocol: Callable[[], AnyProtocol],
        tls: "ssl.SSLContext | None" = None,
    ) -> tuple[asyncio.Transport, AnyProtocol]:
        """Connect to an address; with `tls`, the protocol is made once the handshake is over.
        OSError: refused, or unreachable, or (ssl.SSLError) no handshake.
        """

    def name(self) -> str:
        """By which name other machines find this one."""


class SystemNetwork:
    """The machine's sockets, on an asyncio loop or uvloop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def bind(self, host: str, port: int, backlog: int) -> BoundAddress:
        return await Bound.make(self._loop, host, port, backlog)

    def listen(self, host: str, port: int, backlog: int) -> Address:
        return _Listening(self._loop, host, port, backlog)

    async def connect(
        self,
        host: str,
        port: int,
        make_protocol: Callable[[], AnyProtocol],
        tls: "ssl.SSLContext | None" = None,
    ) -> tuple[asyncio.Transport, AnyProtocol]:
        if tls is None:
            return await self._loop.create_connection(make_protocol, host, port)
        return await self._loop.create_connection(make_protocol, host, port, ssl=tls, server_hostname=host)

    def name(self) -> str:
        return socket.getfqdn()


class _Listening:
    """One socket that listens from the start; the system keeps connections until they are accepted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int, backlog: int) -> None:
        self._loop = loop
        self._server: asyncio.Server | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=backlog)
        self._socket.setblocking(False)
        self.host = host
        self.port: int = self._socket.getsockname()[1]

    async def serve(self, make_protocol: MakeProtocol) -> None:
        self._server = await self._loop.create_server(make_protocol, sock=self._socket)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._socket.close()
