"""One ZooKeeper session: kazoo's client with calls that an event loop can await.

kazoo works in threads of its own; whatever it reports is handed to the event loop by `call_soon_threadsafe`,
in order. A session is never revived: where kazoo would begin a new one by itself, this one is over.

    connecting --> up <--> away (connection lost; the session may live)  --> over

`call` waits while the connection is away. A call whose connection is lost raises `ConnectionAway`: whether
it was carried out is unknown. When the session is over, `SessionOver`.

ZooKeeper hears heartbeats from kazoo's thread, also while the event loop hangs. So the loop beats (a timer),
and when kazoo's thread finds that the last beat is older than the session may be, and half as long again, it
closes the session: others take over, as if the broker had died. (Half as long again, because a broker that
starts beside others on a busy machine imports for as long as a short session.)

Not here: what is called (the other files of this folder).
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo import exceptions as zk
from kazoo.client import KazooClient, TransactionRequest
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.zookeeper.login import log_in_by
from moldau.broker.metadata.zookeeper.options import Options
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.tls.contexts import client_context
from moldau.common.credentials.tls.options import TlsOptions

log = logging.getLogger("moldau.zookeeper")
_client_log = logging.getLogger("moldau.zookeeper.client")
_client_log.setLevel(logging.ERROR)  # what matters of it is logged here

_AWAY = (
    zk.ConnectionLoss,
    zk.ConnectionClosedError,
    zk.SessionExpiredError,
    zk.SessionMovedError,
    zk.OperationTimeoutError,
    KazooTimeoutError,
)
_UNDONE = (zk.RolledBackError, zk.RuntimeInconsistency)
_BEATS_A_SESSION = 8
_HANGS_SESSIONS = 1.5
_CLOSE_SECONDS = 10.0


class ConnectionAway(Exception):
    """The connection was lost: whether the call was carried out is unknown."""


class SessionOver(Exception):
    """The session is over, or was closed."""


class Failure(Exception):
    """A transaction was refused, and nothing of it done: by operation `index`, for `cause`."""

    def __init__(self, index: int, cause: Exception) -> None:
        super().__init__(f"operation {index}: {type(cause).__name__}")
        self.index = index
        self.cause = cause


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and connections; looks at each wait for the network whether the event loop lives."""

    def __init__(
        self, look: Callable[[], None], connect_seconds_max: float, tls: TlsOptions | None = None
    ) -> None:
        super().__init__()
        self._tls = tls
        self._look = look
        self._connect_seconds_max = connect_seconds_max
        self.last_error = ""

    def select(self, *args: Any, **kwargs: Any) -> Any:
        self._look()
        return super().select(*args, **kwargs)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        # kazoo would spend the whole session on one server that does not answer.
        kwargs["timeout"] = min(kwargs.get("timeout") or self._connect_seconds_max, self._connect_seconds_max)
        try:
            connected = super().create_connection(*args, **kwargs)
            return connected if self._tls is None else _secured(connected, self._tls, kwargs.get("hostname"))
        except OSError as error:
            self.last_error = str(error)
            raise


def _secured(connected: Any, tls: TlsOptions, hostname: str | None) -> ssl.SSLSocket:
    """A connection after its handshake. The stores are read anew, so that renewed certificates are shown;
    kazoo itself reads PEM only. OSError, also where they cannot be used any more."""
    try:
        return client_context(tls).wrap_socket(connected, server_hostname=hostname)
    except CredentialsError as error:
        connected.close()
        raise OSError(str(error)) from None
    except OSError:
        connected.close()
        raise


class Session:
    """A session from its beginning to its end. The callbacks are called on the event loop: `connected` each
    time the connection is there (watches are gone then), `over` once, with a reason for people.
    """

    def __init__(
        self,
        options: Options,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        seconds: Callable[[], float],
        *,
        connected: Callable[[], None],
        over: Callable[[str], None],
    ) -> None:
        self.options = options
        self._loop = loop
        self._timers = timers
        self._seconds = seconds
        self._connected = connected
        self._over_heard = over
        self.over = ""
        """Why the session is over; empty while it is not."""
        self.up = False
        """Whether the ensemble can be reached now."""
        self.since_seconds = seconds()
        """When `up` last changed, on the host's counter."""
        self.session_id = 0
        """Of the session: the owner of its ephemeral nodes."""
        self.timeout_ms = options.session_timeout_ms
        """After how long without a sign of life ZooKeeper ends the session."""
        self.latency_ms = 0.0
        """How long the last call took."""
        self._up_or_over = asyncio.Event()
        self._room = asyncio.Semaphore(options.in_flight_max)
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._beat_seconds = seconds()
        self._beat_timer: TimerHandle | None = None
        self._given_up = False
        hosts = options.hosts.count(",") + 1
        timeout_seconds = options.session_timeout_ms / 1000
        self._handler = _Handler(self._look_at_the_loop, max(timeout_seconds / (hosts + 1), 0.2), options.tls)
        self._client = KazooClient(
            hosts=options.hosts,
            timeout=timeout_seconds,
            handler=self._handler,
            default_acl=CREATOR_ALL_ACL if options.private else None,
            auth_data=[("digest", options.credentials)] if options.credentials else None,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=min(1.0, timeout_seconds / 4)),
            logger=_client_log,
        )
        self._logs_in = options.sasl is not None
        if options.sasl is not None:
            connection, done = self._client._connection, self._logged_in
            log_in_by(options.sasl, connection, accepted=done, refused=self._login_refused)
        self._client.add_listener(self._state_heard)
        self._hear_timeout()

    def start(self) -> None:
        """Begin to connect; `connected` is called when it is done."""
        log.info("connecting to ZooKeeper at %s", self.options.hosts)
        self._client.start_async()
        self._beat()

    def public_acl(self) -> Any:
        """For nodes that everybody may read."""
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if self.options.private else None

    def _hear_timeout(self) -> None:
        """Hear how long ZooKeeper lets sessions last, which kazoo knows, but does not tell."""
        connection = self._client._connection
        connect = connection._connect

        def connect_and_hear(*arguments: Any) -> Any:
            timeouts_ms = connect(*arguments)
            self._soon(self._timeout_heard, round(timeouts_ms[0] * 3 / 2))  # it waits 2/3 for a sign of life
            return timeouts_ms

        connection._connect = connect_and_hear

    def _timeout_heard(self, timeout_ms: int) -> None:
        asked_ms = self.options.session_timeout_ms
        if timeout_ms != self.timeout_ms and abs(timeout_ms - asked_ms) > 1:
            log.warning(
                "ZooKeeper gives sessions of %d ms, not the %d ms of zookeeper.session.timeout.ms: it allows "
                "from 2 to 20 of its ticks (minSessionTimeout and maxSessionTimeout in zoo.cfg)",
                timeout_ms,
                asked_ms,
            )
        self.timeout_ms = timeout_ms

    # Calls

    async def reach(self) -> None:
        """Wait until the ensemble can be reached. SessionOver."""
        await self._up_or_over.wait()
        if self.over:
            raise SessionOver(self.over)

    async def call(self, start: Callable[[KazooClient], Any]) -> Any:
        """The result of one of kazoo's `..._async` calls. ConnectionAway, SessionOver, or kazoo's errors."""
        await self.reach()
        async with self._room:
            await self.reach()
            answer = self._loop.create_future()
            self._calls[answer] = None
            began = self._seconds()
            try:
                start(self._client).rawlink(lambda result: self._soon(_settle, answer, result))
                value = await answer
                self.latency_ms = (self._seconds() - began) * 1000
                return value
            finally:
                self._calls.pop(answer, None)

    async def get(self, path: str, watch: Callable[[], None] | None = None) -> tuple[bytes, Any]:
        """A node's data and stat. NoNodeError."""
        found: tuple[bytes, Any] = await self.call(partial(_get, path=path, watch=self._watch(watch)))
        return found

    async def find(self, path: str) -> tuple[bytes, Any] | None:
        """A node's data and stat, or None."""
        try:
            return await self.get(path)
        except zk.NoNodeError:
            return None

    async def stat(self, path: str, watch: Callable[[], None] | None = None) -> Any:
        """A node's stat, or None."""
        heard = self._watch(watch)
        return await self.call(lambda client: client.exists_async(path, watch=heard))

    async def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str]:
        """The names of a node's children, in order. NoNodeError."""
        heard = self._watch(watch)
        return sorted(await self.call(lambda client: client.get_children_async(path, watch=heard)))

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        """Make a node. NodeExistsError, NoNodeError (of its parent)."""
        await self.call(lambda client: client.create_async(path, data, ephemeral=ephemeral))

    async def delete(self, path: str) -> None:
        """Remove a node, if it is there."""
        with contextlib.suppress(zk.NoNodeError):
            await self.call(lambda client: client.delete_async(path))

    async def sync(self, path: str) -> None:
        """Return when what is read here next is as new as what anybody was told before."""
        await self.call(lambda client: client.sync_async(path))

    async def transaction(self, fill: Callable[[TransactionRequest], None]) -> list[Any]:
        """The results of operations that are carried out together, or Failure."""

        def start(client: KazooClient) -> Any:
            request = client.transaction()
            fill(request)
            return request.commit_async()

        results: list[Any] = await self.call(start)
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, _UNDONE):
                raise Failure(index, result)
        return results

    def _watch(self, heard: Callable[[], None] | None) -> Callable[[object], None] | None:
        if heard is None:
            return None
        return _Watch(self, heard)

    def watch_fired(self, heard: Callable[[], None]) -> None:
        """A watch has fired; from kazoo's thread."""
        self._soon(self._hear_watch, heard)

    def _hear_watch(self, heard: Callable[[], None]) -> None:
        if not self.over:
            heard()

    # States

    def _soon(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call on the event loop, from whatever thread; nothing when the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _state_heard(self, state: str) -> None:
        """Called by kazoo's thread."""
        if state == KazooState.CONNECTED and self._logs_in:
            return  # the login comes next
        self._soon(self._state_changed, state, self._client.client_id)

    def _logged_in(self) -> None:
        """Called by kazoo's thread."""
        self._soon(self._state_changed, KazooState.CONNECTED, self._client.client_id)

    def _login_refused(self, why: str) -> None:
        """Called by kazoo's thread."""
        if why != self._handler.last_error:
            log.warning("%s", why)
        self._handler.last_error = why

    def _state_changed(self, state: str, client_id: tuple[int, bytes] | None) -> None:
        if self.over:
            return
        if state == KazooState.CONNECTED and client_id is not None:
            if self.session_id and not self.up:
                log.info("ZooKeeper is reached again after %.1f s", self._seconds() - self.since_seconds)
            self._set_up(True)
            self.session_id = client_id[0]
            self._up_or_over.set()
            self._connected()
        elif state == KazooState.LOST:
            reason = "ZooKeeper has ended the session: it had not heard from this broker for too long"
            if self._given_up:
                reason = "the event loop stood still for longer than the session, which was given up"
            self.end(reason)
        elif self.up:
            log.warning("the connection to ZooKeeper (%s) is lost; connecting again", self.options.hosts)
            self._set_up(False)
            self._up_or_over.clear()

    def _set_up(self, up: bool) -> None:
        # kazoo also tells of a connection that is made, and lost again because its login is refused.
        if up != self.up:
            self.up, self.since_seconds = up, self._seconds()

    def end_unless_up(self, reason: str) -> None:
        """End it, if the ensemble was not reached."""
        if not self.up:
            self.end(f"{reason}{f' ({self._handler.last_error})' if self._handler.last_error else ''}")

    def end(self, reason: str) -> None:
        """The session is over: fail what is under way, tell, and let kazoo go."""
        if self.over:
            return
        self._finish(reason)
        self._handler.spawn(self._close_client)
        self._over_heard(reason)

    async def close(self) -> None:
        """End the session and, if the ensemble can be reached, wait until it knows."""
        if self.over:
            return
        was_up, closed = self.up, asyncio.Event()
        self._finish("the metadata store is closed")

        def close() -> None:
            self._close_client()
            self._soon(closed.set)

        self._handler.spawn(close)
        if was_up:
            timer = self._timers.call_later(_CLOSE_SECONDS * 1000, closed.set)
            try:
                await closed.wait()
            finally:
                timer.cancel()

    def _finish(self, reason: str) -> None:
        self.over, self.up = reason, False
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        self._up_or_over.set()
        for answer in list(self._calls):
            if not answer.done():
                answer.set_exception(ConnectionAway())

    def _close_client(self) -> None:
        """In a thread: kazoo waits for its own."""
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:
            _client_log.info("closing: %s", error)

    # The loop's heartbeat

    def _beat(self) -> None:
        self._beat_seconds = self._seconds()
        self._beat_timer = self._timers.call_later(self.timeout_ms / _BEATS_A_SESSION, self._beat)

    def _look_at_the_loop(self) -> None:
        """In kazoo's thread: give the session up if the event loop hangs."""
        still_seconds = self._seconds() - self._beat_seconds
        limit_ms = _HANGS_SESSIONS * self.timeout_ms
        if still_seconds * 1000 > limit_ms and not self._given_up and not self.over:
            self._given_up = True
            log.error(
                "the event loop has stood still for %.1f s: this broker gives its ZooKeeper session up",
                still_seconds,
            )
            self._handler.spawn(self._close_client)


class _Watch:
    """A watch's callback. Two for the same function are the same, so that kazoo keeps one of them."""

    def __init__(self, session: Session, heard: Callable[[], None]) -> None:
        self._session = session
        self._heard = heard

    def __call__(self, event: object) -> None:
        self._session.watch_fired(self._heard)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watch) and self._heard == other._heard

    def __hash__(self) -> int:
        return hash(self._heard)


def _get(client: KazooClient, *, path: str, watch: Any) -> Any:
    return client.get_async(path, watch=watch)


def _settle(answer: "asyncio.Future[Any]", result: Any) -> None:
    """On the event loop: hand a result of kazoo's over."""
    if answer.done():
        return
    error = result.exception
    if error is None:
        answer.set_result(result.value)
    elif isinstance(error, _AWAY):
        answer.set_exception(ConnectionAway())
    elif isinstance(error, zk.SessionClosedRequireSaslError):
        answer.set_exception(
            MetadataStoreError(
                "ZooKeeper serves only clients that log in by SASL: set moldau.zookeeper.sasl.jaas.config, "
                "or name a JAAS file with a section Client in KAFKA_OPTS"
            )
        )
    else:
        answer.set_exception(error)
