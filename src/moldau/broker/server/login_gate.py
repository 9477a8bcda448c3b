"""A connection's dispatcher while its client logs in with SASL: frames go to the login, not to handlers.

    frames -> [ LoginGate: security/login/exchange.py ]         before the login, and during another one
    frames -> Dispatch                                          afterwards: the gate is gone

A login that does not end keeps no gate, so a request pays nothing for it. One that ends
(connections.max.reauth.ms, a token that expires) keeps the gate, which looks at the clock: a SaslHandshake
begins a re-authentication, and any other request after the end closes the connection, as in Kafka (KIP-368).

A failed login is answered after connection.failed.authentication.delay.ms, and the connection is closed;
until then it is not read. Before the login a frame may have sasl.server.max.receive.size bytes.

Not here: what a frame means (login/exchange.py), mechanisms (security/login/).
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.exchange import Slot
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.security.login.exchange import (
    SASL_HANDSHAKE,
    AboveLogin,
    Earlier,
    Failed,
    LoggedIn,
    Login,
    LoginError,
    Reply,
)
from moldau.broker.server.connection import Connection, Dispatcher
from moldau.broker.server.interfaces import Parts, PeerError
from moldau.common.core.waiting import is_later
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import RequestHeader, frame_response, has_tagged_response_header

if TYPE_CHECKING:
    from moldau.broker.security.login.logins import Logins

log = logging.getLogger("moldau.server")

_AGAIN_MS_MIN = 1000  # a client re-authenticates no more than once a second, as in Kafka


class LoginGate:
    """The login of one connection."""

    __slots__ = (
        "_again_ms",
        "_broker",
        "_connection",
        "_ends_ms",
        "_login",
        "_logins",
        "_mechanism",
        "_over",
        "_served",
    )

    def __init__(self, connection: Connection, broker: Broker, logins: "Logins", served: Dispatcher) -> None:
        """`served`: handles the requests of a client that is logged in."""
        self._connection = connection
        self._broker = broker
        self._logins = logins
        self._served = served
        self._login: Login | None = None
        self._mechanism = ""
        self._ends_ms = float("inf")  # when the login ends, by the monotonic clock
        self._again_ms = float("-inf")  # when the last re-authentication began
        self._over = False
        connection.frame_bytes_max = min(
            connection.frame_bytes_max, logins.receive_bytes_max(connection.session.listener)
        )
        connection.login_frames = connection.listener.login_frames
        self._begin(None)

    def _begin(self, earlier: Earlier | None) -> None:
        logins, listener = self._logins, self._connection.session.listener
        above = AboveLogin(self._api_versions, self._illegal_state)
        self._login = Login(lambda: logins.offered(listener), above, self._broker.clock.now_ms, earlier)

    def connected(self, connection: Connection) -> Dispatcher:
        """A gate is of one connection."""
        del connection
        return self

    @property
    def takes_empty_frames(self) -> bool:
        """Whether a frame may have no bytes: a bare token may."""
        return self._login is not None and self._login.takes_bare_tokens

    def request(self, connection: Connection, view: memoryview, position: int, end: int) -> Parts | None:
        """Take the next frame; those after the login go on to the handlers."""
        login = self._login
        if login is None:
            return self._request_logged_in(connection, view, position, end)
        if self._over:
            connection.close()
            return None
        try:
            reply = login.receive(bytes(view[position + 4 : end]))
        except LoginError as error:
            connection.listener.logins.fail(again=bool(self._mechanism))
            raise PeerError("login", str(error)) from None
        if is_later(reply):
            self._wait_for(reply)
            return None
        return self._settle(cast(Reply, reply), None)

    def _request_logged_in(
        self, connection: Connection, view: memoryview, position: int, end: int
    ) -> Parts | None:
        if connection.dispatcher is self:  # the login ends some time
            now_ms = self._broker.clock.monotonic_ms()
            is_handshake = int.from_bytes(view[position + 4 : position + 6], "big") == SASL_HANDSHAKE
            if is_handshake and now_ms - self._again_ms >= _AGAIN_MS_MIN:
                self._again_ms = now_ms
                self._begin(Earlier(self._mechanism, connection.session.principal))
                return self.request(connection, view, position, end)
            if now_ms > self._ends_ms:
                connection.listener.logins.expired += 1
                raise PeerError("expired", "a request after its login had ended")
        return self._served.request(connection, view, position, end)

    def other_protocol(self, connection: Connection, first_bytes: bytes) -> None:
        """The bytes are not a Kafka frame, or a longer one than is taken before a login."""
        size_bytes = int.from_bytes(first_bytes[:4], "big")
        if self._login is not None and 0 < size_bytes <= connection.listener.frame_bytes_max:
            connection.refuse(
                PeerError(
                    "login size",
                    f"a frame of {size_bytes} bytes before it was logged in, more than "
                    "sasl.server.max.receive.size",
                )
            )
        else:
            self._served.other_protocol(connection, first_bytes)

    # Replies

    def _wait_for(self, later: Awaitable[Reply]) -> None:
        """The mechanism has to wait for something: the connection waits too."""

        async def wait() -> Reply:
            return await later

        task = asyncio.ensure_future(wait())

        def lost() -> None:
            task.cancel()

        slot = self._connection.park(blocking=True, on_lost=lost)

        def finish(done: asyncio.Future[Reply]) -> None:
            if done.cancelled() or self._connection.closed:
                return
            error = done.exception()
            if error is not None:
                if not isinstance(error, LoginError):
                    log.error("a SASL mechanism failed: this is a bug", exc_info=error)
                self._connection.close()
                return
            parts = self._settle(done.result(), slot)
            if not self._over:
                slot.fill(parts)

        task.add_done_callback(finish)

    def _settle(self, reply: Reply, slot: Slot | None) -> Parts | None:
        if isinstance(reply, Failed):
            self._fail(reply, slot)
            return None
        if isinstance(reply, LoggedIn):
            self._logged_in(reply)
        return reply.frame

    def _logged_in(self, reply: LoggedIn) -> None:
        connection, clock, accepted = self._connection, self._broker.clock, reply.accepted
        connection.listener.logins.succeed(again=bool(self._mechanism))
        now_ms, lifetime_ms = clock.now_ms(), reply.lifetime_ms
        expires_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        connection.session.authenticate(accepted.principal, now_ms, expires_ms, accepted.token_id)
        connection.frame_bytes_max = connection.listener.frame_bytes_max
        if connection.login_frames is not None:
            connection.login_frames.give_back(connection)
            connection.login_frames = None
        self._mechanism = reply.mechanism
        self._login = None
        if lifetime_ms is None:
            connection.dispatcher = self._served
        else:
            self._ends_ms = clock.monotonic_ms() + lifetime_ms

    def _fail(self, reply: Failed, slot: Slot | None) -> None:
        """Answer late, so that guessing passwords is slow, then close."""
        connection = self._connection
        self._over = True
        connection.listener.logins.fail(again=bool(self._mechanism))
        connection.listener.login_failed(connection, reply.reason)

        def end() -> None:
            if not connection.closed:
                waiting.fill(reply.frame)
                connection.close()

        timer = connection.listener.timers.call_later(self._logins.delay_ms(), end)
        if slot is None:
            waiting = connection.park(blocking=True, on_lost=timer.cancel)
        else:
            waiting = slot
            waiting.on_lost = timer.cancel
        connection.ignore_input()

    # What a login needs of the handlers

    def _api_versions(self, header: RequestHeader, frame: bytes) -> tuple[bytes, bool]:
        entry = TABLE[header.api_key]
        version = header.api_version
        if not entry.min_version <= version <= entry.max_version:
            from moldau.broker.handlers.apis.cluster.api_versions import advertised

            answer = entry.request_type.RESPONSE(
                error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised()
            )
            return frame_response(header.correlation_id, False, answer.encode(0)), False
        request = entry.request_type.decode(frame, version, header.body_offset)
        context = RequestContext(version, header.correlation_id, self._connection.session)
        assert entry.handler is not None
        answer = cast(Any, entry.handler(self._broker, context, request))
        understood = answer.error_code == ErrorCode.NONE
        return frame_response(header.correlation_id, False, answer.encode(version)), understood

    def _illegal_state(self, header: RequestHeader, sentence: str) -> bytes | None:
        entry = TABLE.get(header.api_key)
        if entry is None or not entry.min_version <= header.api_version <= entry.max_version:
            return None
        answer = entry.request_type.RESPONSE()
        if not hasattr(answer, "error_code"):
            return None
        answer.error_code = ErrorCode.ILLEGAL_SASL_STATE
        if hasattr(answer, "error_message"):
            answer.error_message = sentence
        flexible = has_tagged_response_header(header.api_key, header.api_version)
        return frame_response(header.correlation_id, flexible, answer.encode(header.api_version))
