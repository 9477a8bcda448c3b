"""The way to one other broker: connects on the first request, and again after a pause when it has failed.

             first request            ApiVersions answered
    idle ───────────────────> connecting ────────────────> open ──> requests
     ^                            │ failed                   │ ended
     │        no request waits    v                          v
     └─────────────────────── paused (50 ms, doubled up to 1 s, with jitter)

A request that is made while connecting or paused waits, until its own timeout. A failed attempt fails all
requests that wait; a new one is made only if a request comes, so that a broker nobody asks costs nothing. An
open connection that ends while nothing is in flight (the other end closes idle ones) is no failure.

How to connect (TLS, a login) is asked for each attempt, so that changed credentials count from the next one
on. A refused certificate or login is logged once, as a warning, until a connection succeeds.

Not here: which brokers there are (broker_peers.py), the login (login.py).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from moldau.broker.peers.call import Call
from moldau.broker.peers.connection import CLOSED, NoCommonVersion, PeerConnection
from moldau.broker.peers.host import PeerHost
from moldau.broker.peers.peers import Unsupported
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import TimerHandle
from moldau.common.protocol.declare import Message, is_long
from moldau.common.protocol.wire import MalformedMessage

if TYPE_CHECKING:
    from moldau.broker.peers.login import PeerLogin
    from moldau.common.credentials.client.options import ClientSecurity

log = logging.getLogger("moldau.peers")

_PAUSE_MS_FIRST = 50.0
_PAUSE_MS_MAX = 1000.0
_JITTER = 0.2
_SLICED_BYTES = 64 * 1024
_ELEMENTS_MAX = 4_000_000
_WAITING_MAX = 10_000


class Channel:
    """Requests to one broker at one endpoint."""

    def __init__(
        self,
        name: str,
        endpoint: tuple[str, int],
        host: PeerHost,
        lane: SlowLane,
        *,
        client_id: str,
        setup_timeout_ms: int,
        frame_bytes_max: int,
        security: "Callable[[], ClientSecurity] | None" = None,
    ) -> None:
        """`name` is for messages; a connection must be made within `setup_timeout_ms`. `security` None: in
        plain text, without a login.
        """
        self.name = name
        self.endpoint = endpoint
        self._host, self._lane = host, lane
        self._client_id = client_id
        self._setup_timeout_ms = setup_timeout_ms
        self._frame_bytes_max = frame_bytes_max
        self._security = security
        self._login: PeerLogin | None = None
        self._complaint = ""
        self._connection: PeerConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: dict[Call, None] = {}
        self._pause_ms = 0.0
        self._pause: TimerHandle | None = None
        self._setup: TimerHandle | None = None
        self._work: dict[asyncio.Task[None], None] = {}  # responses and requests that are coded in slices
        self._closed: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent now."""
        return self._connection is not None and self._connection.ready

    def send(self, call: Call, timeout_ms: int) -> None:
        """Send a request, now or when connected; it is settled within `timeout_ms`."""
        if self._closed is not None:
            call.fail(f"{self.name}: {self._closed}; the request was not sent")
            return
        if len(self._waiting) >= _WAITING_MAX:
            call.fail(f"{self.name}: too many requests wait for a connection; this one was not sent")
            return
        call.timer = self._host.timers.call_later(timeout_ms, lambda: self._timed_out(call, timeout_ms))
        connection = self._connection
        if connection is not None and connection.ready:
            self._put(connection, call)
            return
        self._waiting[call] = None
        if connection is None and self._pause is None:
            self._connect()

    def give_back(self, frame: memoryview) -> None:
        """The receiver of this raw response is done with it."""
        if self._connection is not None:
            self._connection.give_back(frame)

    def close(self, reason: str) -> None:
        """End it for good; everything under way fails."""
        if self._closed is not None:
            return
        self._closed = reason
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self._drop(reason)
        self._fail_waiting(reason)
        for task in list(self._work):
            task.cancel()

    # Connecting

    def _connect(self) -> None:
        connection = PeerConnection(
            name=self.name,
            client_id=self._client_id,
            frame_bytes_max=self._frame_bytes_max,
            decode=self._decode,
            on_ready=lambda: self._opened(connection),
            on_end=lambda reason, failed_count: self._ended(connection, reason, failed_count),
            on_greeted=None if self._security is None else lambda: self._greeted(connection),
        )
        self._connection = connection
        self._setup = self._host.timers.call_later(
            self._setup_timeout_ms,
            lambda: connection.end(f"no connection within {self._setup_timeout_ms} ms"),
        )
        self._connecting = self._host.loop.create_task(self._dial(connection))

    async def _dial(self, connection: PeerConnection) -> None:
        host, port = self.endpoint
        try:
            if self._security is None:
                await self._host.network.connect(host, port, lambda: connection)
            else:
                await self._dial_securely(connection, self._security)
        except asyncio.CancelledError:
            connection.end("the attempt to connect was given up")
        except (OSError, UnicodeError, ValueError) as error:
            connection.end(f"cannot connect: {error}")

    async def _dial_securely(
        self, connection: PeerConnection, security: "Callable[[], ClientSecurity]"
    ) -> None:
        from moldau.broker.peers.secure_connect import connect_by_tls
        from moldau.common.credentials.errors import CredentialsError

        try:
            now = security()
            if now.tls is None:
                await self._host.network.connect(*self.endpoint, lambda: connection)
            else:
                await connect_by_tls(self._host, self.endpoint, now, connection)
        except CredentialsError as error:
            connection.end(f"cannot connect: {error}")

    def _greeted(self, connection: PeerConnection) -> None:
        assert self._security is not None
        if self._security().sasl is None:
            connection.be_ready()
            return
        from moldau.broker.peers.login import PeerLogin

        self._login = PeerLogin(
            connection,
            self._security,
            self._host,
            name=self.name,
            server=self.endpoint[0],
            timeout_ms=self._setup_timeout_ms,
        )
        self._login.begin()

    def _opened(self, connection: PeerConnection) -> None:
        # The task that dialled is left alone: its peer may have answered before it goes on, and to cancel it
        # then would close the connection.
        self._stop_setup_timer()
        self._complaint = ""
        waiting, self._waiting = self._waiting, {}
        for call in waiting:
            if not call.done:
                self._put(connection, call)

    def _ended(self, connection: PeerConnection, reason: str, failed_count: int) -> None:
        """The connection has ended, with so many requests in flight, or was never made."""
        failed = failed_count > 0 or not connection.frames_received
        self._connection = None
        self._end_setup()
        if self._login is not None:
            if not connection.frames_before_ready and reason == CLOSED:
                reason += " during the login: the name, the password or the mechanism may be wrong"
            self._login.stop()
            self._login = None
        if self._closed is not None:
            return
        if connection.frames_before_ready and connection.frames_received > connection.frames_before_ready:
            self._pause_ms = 0.0  # it has answered requests
        elif self._security is not None and reason != self._complaint:
            self._complaint = reason
            log.warning("%s: %s", self.name, reason)
        if failed or self._waiting:
            self._begin_pause(reason)
        self._fail_waiting(reason)

    def _begin_pause(self, reason: str) -> None:
        self._pause_ms = min(_PAUSE_MS_MAX, max(_PAUSE_MS_FIRST, 2 * self._pause_ms))
        pause_ms = self._pause_ms * (1 + _JITTER * (2 * self._host.random.random() - 1))
        log.debug("%s: %s; the next attempt is made in %d ms at the earliest", self.name, reason, pause_ms)
        self._pause = self._host.timers.call_later(pause_ms, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        if any(not call.done for call in self._waiting):
            self._connect()

    def _stop_setup_timer(self) -> None:
        if self._setup is not None:
            self._setup.cancel()
            self._setup = None

    def _end_setup(self) -> None:
        """The connection is over: nobody dials for it any more."""
        self._stop_setup_timer()
        task, self._connecting = self._connecting, None
        if task is not None and not task.done():
            task.cancel()

    def _drop(self, reason: str) -> None:
        connection = self._connection
        if connection is not None:
            connection.end(reason)

    def _fail_waiting(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, {}
        for call in waiting:
            call.fail(f"{self.name}: {reason}; the request was not sent")

    # Requests and responses

    def _put(self, connection: PeerConnection, call: Call) -> None:
        try:
            call.version = connection.version_of(call)
        except NoCommonVersion as error:
            call.fail(f"{self.name}: {error}", Unsupported)
            return
        request = call.request
        if isinstance(request, Message) and is_long(request):
            self._begin(self._encode_long(connection, call, request))
            return
        connection.send(call, request.encode(call.version))

    async def _encode_long(self, connection: PeerConnection, call: Call, request: Message) -> None:
        steps = request.encode_in_slices(call.version)
        chunks = await self._lane.slices().run(steps)
        if connection.ready and not call.done:
            connection.send(call, b"".join(chunks))
        elif connection is self._connection and not call.done:
            self._waiting[call] = None  # it logs in again
        else:
            call.fail(f"{self.name}: the connection ended; the request was not sent")

    def _decode(self, call: Call, frame: memoryview, offset: int) -> None:
        if len(frame) > _SLICED_BYTES:
            self._begin(self._decode_long(call, frame, offset))
        else:
            call.answer(type(call.request).RESPONSE.decode(frame, call.version, offset))

    async def _decode_long(self, call: Call, frame: memoryview, offset: int) -> None:
        kind = type(call.request).RESPONSE
        try:
            steps = kind.decode_in_slices(frame, call.version, offset, _ELEMENTS_MAX)
            call.answer(await self._lane.slices().run(steps))
        except MalformedMessage as error:
            call.fail(f"{self.name}: it sent what cannot be read: {error}")
            self._drop(f"it sent what cannot be read: {error}")
        except asyncio.CancelledError:
            call.fail(f"{self.name}: {self._closed or 'the connection ended'}")
            raise

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._host.loop.create_task(work)
        self._work[task] = None
        task.add_done_callback(lambda done: self._work.pop(done, None))

    def _timed_out(self, call: Call, timeout_ms: int) -> None:
        call.timer = None
        if call in self._waiting:
            del self._waiting[call]
            call.fail(f"{self.name}: no connection within {timeout_ms} ms; the request was not sent")
            return
        if call.done:
            return
        call.fail(f"{self.name}: no response within {timeout_ms} ms")
        if self._connection is not None:
            self._connection.timed_out(call)
