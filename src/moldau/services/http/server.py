"""Runs an ASGI application on its listeners: in a loop that is there, in the foreground, or in a thread.

    server = HttpServer(app, listeners, limits=...)
    await server.start()            in a running loop; server.addresses tells where
    await server.stop()

    run_until_signal(server)        a program of its own, until SIGTERM or SIGINT
    with ServerThread(make): ...    beside a broker that has its own event loop

A listener's address is bound before anything is served, so that a port in use is one sentence. Not here: what
is served (application.py), limits of connections (connections.py).
"""

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp

from moldau.services.http.connections import ConnectionLimits, Connections, LimitedConnection, protocol_for
from moldau.services.http.settings import Listener
from moldau.services.http.tls_acceptor import Handshake, TlsAcceptor

log = logging.getLogger("moldau.http")

T = TypeVar("T")

_BACKLOG = 1024
_UNSENT_IN_KERNEL_BYTES = 128 * 1024


class ListenError(OSError):
    """An address cannot be listened on; the message says why and what to do."""


class _Uvicorn(uvicorn.Server):
    """uvicorn's server without its own signal handling, and with an end that is noticed at once."""

    def __init__(
        self, config: uvicorn.Config, connections: Connections, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` is for a listener of https."""
        super().__init__(config)
        self.ended = asyncio.Event()
        self._connections = connections
        self._tls = tls
        self._acceptors: list[TlsAcceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is None:
            await super().startup(sockets)
            return
        made: Any = self.config.http_protocol_class

        def make(handshake: Handshake) -> LimitedConnection:
            connection: LimitedConnection = made(
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                instead_of=handshake,
            )
            return connection

        self._acceptors = [TlsAcceptor(each, self._tls, self._connections, make) for each in sockets or ()]
        self.servers = []
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in self._acceptors:
            await each.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        while not self.should_exit:
            await self.on_tick(0)  # the Date header
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.ended.wait()


class HttpServer:
    """One application on its addresses."""

    def __init__(
        self,
        app: ASGIApp,
        listeners: Sequence[Listener],
        *,
        tls: ssl.SSLContext | None = None,
        limits: ConnectionLimits | None = None,
        graceful_seconds: float = 1.0,
    ) -> None:
        """`tls` is for listeners of https."""
        self.connections = Connections(limits or ConnectionLimits())
        self.addresses: tuple[str, ...] = ()
        self.app: Any = app
        self._listeners = tuple(listeners)
        self._tls = tls
        self._graceful_seconds = graceful_seconds
        self._bound: list[tuple[Listener, list[socket.socket]]] = []
        self._servers: list[tuple[_Uvicorn, asyncio.Task[None]]] = []

    @property
    def url(self) -> str:
        """The first address, as a client writes it."""
        return self.addresses[0]

    def bind(self) -> None:
        """Take the addresses, so that they are known; nobody is answered yet. ListenError."""
        if not self._bound:
            try:
                for listener in self._listeners:
                    self._bound.append((listener, _bind(listener)))
            except ListenError:
                self.release()
                raise
            self.addresses = tuple(_address(listener, sockets[0]) for listener, sockets in self._bound)

    def release(self) -> None:
        """Give addresses back that are bound and not served."""
        for _, sockets in self._bound:
            for sock in sockets:
                sock.close()
        self._bound.clear()

    async def start(self) -> None:
        """Listen; returns when requests are answered. ListenError."""
        self.bind()
        bound, self._bound = self._bound, []
        for listener, sockets in bound:
            tls = self._tls if listener.scheme == "https" else None
            server = _Uvicorn(self._config(), self.connections, tls)
            task = asyncio.get_running_loop().create_task(server.serve(sockets=sockets))
            self._servers.append((server, task))
            while not server.started:
                if task.done():
                    await task
                    raise ListenError(f"the service on {self.addresses[0]} ended while it started")
                await asyncio.sleep(0.001)

    async def stop(self) -> None:
        """Accept nothing more, let requests end that run, close."""
        ending = getattr(self.app, "ending", None)
        if ending is not None:
            ending.set()
        for server, _ in self._servers:
            server.should_exit = True
            server.ended.set()
        for _, task in self._servers:
            await task
        self._servers.clear()

    def _config(self) -> uvicorn.Config:
        config = uvicorn.Config(
            self.app,
            http=protocol_for(self.connections),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=round(self.connections.limits.idle_seconds),
            timeout_graceful_shutdown=max(1, round(self._graceful_seconds)),
        )
        config.load()
        return config


def _bind(listener: Listener) -> list[socket.socket]:
    shown = f"{listener.host or '*'}:{listener.port}"
    try:
        found = socket.getaddrinfo(
            listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ListenError(f"{listener.host} is not an address of this machine: {error.strerror}") from None
    sockets: list[socket.socket] = []
    port = listener.port
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            sock = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port, *address[2:]))
            sock.listen(_BACKLOG)
            sock.setblocking(False)
            _bound_unsent(sock)
            port = sock.getsockname()[1]
    except OSError as error:
        for sock in sockets:
            sock.close()
        raise ListenError(
            f"{shown} cannot be listened on: {error.strerror}; name another address with --listen"
        ) from None
    return sockets


def _bound_unsent(sock: socket.socket) -> None:
    """Accepted connections inherit it: the kernel takes little that it cannot send yet.

    Else it takes 4 MB for each client that reads nothing: memory that no budget counts, and responses that
    pass for sent although nobody has received them.
    """
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)  # Linux and macOS
    if option is not None:
        with contextlib.suppress(OSError):  # a kernel that has not what Python was built with: gVisor, say
            sock.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_IN_KERNEL_BYTES)


def _address(listener: Listener, sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    host = listener.host or host
    shown = f"[{host}]" if ":" in host else host
    return f"{listener.scheme}://{shown}:{port}"


def run_until_signal(serving: Callable[[], contextlib.AbstractAsyncContextManager[Any]]) -> None:
    """Run a service in this process until SIGTERM or SIGINT; `serving` is entered in a new event loop."""

    async def run() -> None:
        stop, entered = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)

        async def hold() -> None:
            async with serving():
                entered.set()
                await stop.wait()

        held, stopped = loop.create_task(hold()), loop.create_task(stop.wait())
        await asyncio.wait({held, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not entered.is_set() and not held.done():
            held.cancel()  # a start that waits for a broker, say
        with contextlib.suppress(asyncio.CancelledError):
            await held

    _allow_many_files()
    run_in_new_loop(run())


def _allow_many_files() -> None:
    """As many open files as the system lets us: each connection is one, and 1,024 are soon reached."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def in_own_thread(call: Callable[[], T]) -> T:
    """Call what blocks, in a thread that the program's end does not wait for."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(done: Callable[[], None]) -> None:
        def unless_done() -> None:
            if not result.done():
                done()

        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(unless_done)

    def run() -> None:
        try:
            value = call()
        except BaseException as failure:
            problem = failure
            settle(lambda: result.set_exception(problem))
        else:
            settle(lambda: result.set_result(value))

    threading.Thread(target=run, name="moldau-start", daemon=True).start()
    return await result


def run_in_new_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop if it is installed, else on asyncio's event loop."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


class ServerThread:
    """A service with an event loop of its own in a thread; `with` starts and stops it."""

    def __init__(self, serving: Callable[[], contextlib.AbstractAsyncContextManager[Any]], name: str) -> None:
        """`serving` is entered in the thread's loop; what it gives is `self.served`."""
        self.served: Any = None
        self._serving = serving
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Returns when the service answers; raises what its start raised."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def stop(self) -> None:
        """Returns when the service has ended."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> "ServerThread":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            run_in_new_loop(self._main())
        except BaseException as failure:
            if self._ready.is_set():
                log.exception("%s ended: this is a bug", self._name)
            self._failure = failure
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._serving() as served:
            self.served = served
            self._ready.set()
            await self._stop.wait()


@contextlib.asynccontextmanager
async def serving(server: HttpServer) -> AsyncIterator[HttpServer]:
    """The server, started; stopped at the end."""
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
