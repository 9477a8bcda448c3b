"""Reads a request's header, finds its handler, encodes the response in the request's version.

    | api key 2 | api version 2 | correlation id 4 | client id | body ...

Every request passes `Dispatch.request` with its connection's session. The shortcut for repeated Produce
requests is used only while the session's version is unchanged. So checks of every request (authentication,
quotas) belong there; authorisation is checked in handlers, with the same session.

While clients have quotas, each request finds its client's limits (`_limits`), and the time that it takes is
measured. A delay goes into the answer, and the connection is muted for as long (KIP-219); Produce and Fetch
see to that themselves.

Two kinds of entry stand in the table. Produce and Fetch are *frame handlers*: they take the frame itself and
pack their own answers (`raw`). Any other API is decoded by its declaration, and its handler returns a
message, or an awaitable of it, for which the connection keeps a slot. A handler may be a generator that
yields after every few rows: what it finishes within one slice is answered at once, the rest runs in the slow
lane.

    small frame   decode -> handler -> [rest of its steps in slices] -> encode, in slices if it is long
    large frame   allowance -> decode in slices -> handler, in slices -> encode in slices

A large request whose client has gone is given up between two slices.

Errors: an unknown API or version, or a body that does not parse, ends the connection with one line in the log
(but ApiVersions is answered in version 0, as KIP-511 wants it); a bug in the broker is logged with its
traceback and answered with UNKNOWN_SERVER_ERROR.

Hot: `request` and `_frame`; budget with the connection (bench/hot_path.py). Not here: cutting bytes into
frames, the order of answers (connection.py).
"""

import asyncio
import inspect
import logging
import struct
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import ExitStack
from dataclasses import dataclass
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from moldau.broker.handlers.apis.cluster.api_versions import advertised
from moldau.broker.handlers.apis.topics.metadata import EncodedResponse
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.exchange import EndConnection, Slot, kept
from moldau.broker.handlers.parts.registry import TABLE, Entry, FrameHandler, Handler
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.handlers.parts.session import Session
from moldau.broker.server.connection import Connection, Dispatcher
from moldau.broker.server.interfaces import REPEATED, Parts, PeerError
from moldau.common.core.measured import measured
from moldau.common.core.slow_lane import NotWanted, Slices
from moldau.common.protocol.declare import Message, is_long
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_response, parse_request_header, response_start
from moldau.common.protocol.hot_produce import ManyRows
from moldau.common.protocol.operations import Operation
from moldau.common.protocol.release import release
from moldau.common.protocol.wire import MalformedMessage

if TYPE_CHECKING:
    from moldau.broker.security.login.logins import Logins
    from moldau.broker.security.quotas.limits import ClientLimits

log = logging.getLogger("moldau.server")

_HEAD = struct.Struct(">hhi").unpack_from
_CLIENT_ID = struct.Struct(">h").unpack_from
API_VERSIONS = 18
_HEAD_BYTES = 8
LARGE_FRAME_BYTES = 8 * 1024
"""A longer frame is worked on in slices from the beginning; this one's smallest rows take less than a slice
or two to decode."""
_ELEMENT_BYTES_MIN = 2
_PRODUCE, _FETCH = 0, 1
_EXEMPT = frozenset(
    {27, 83, 84, 85, 86, 87}
)  # WriteTxnMarkers, share-partitions' states: only brokers send them
_OFFSET_FOR_LEADER_EPOCH = 23
_ADD_PARTITIONS_TO_TXN, _BY_BROKERS_FROM = 24, 4
_PARKING = frozenset(
    {1, 11, 14, 78}
)  # Fetch, JoinGroup, SyncGroup and ShareFetch wait, which may take minutes
LARGE_RAW_FRAME_BYTES = 16 * 1024
"""A longer Fetch request is decoded in slices; it has some five hundred partitions."""


@dataclass(slots=True)
class _Asked:
    """A request that is being served."""

    connection: Connection
    entry: Entry
    version: int
    correlation_id: int
    began_us: int
    limits: "ClientLimits | None"

    @property
    def flexible_header(self) -> bool:
        return self.version >= self.entry.flexible_from and self.entry.api_key != API_VERSIONS

    @property
    def context(self) -> RequestContext:
        return RequestContext(self.version, self.correlation_id, self.connection.session)

    def is_wanted(self) -> bool:
        """Whether its client still waits."""
        return not self.connection.closed

    # The time it takes, where its client has a quota of time

    def begin(self) -> None:
        if self.limits is not None:
            self.limits.begin()

    def end(self) -> None:
        if self.limits is not None:
            self.limits.end()

    def exempt(self, broker: Broker, request: Any) -> None:
        """Charge nothing for it if it is another broker's: who only says so is charged."""
        session = self.connection.session
        if (
            self.limits is not None
            and _is_exempt(self, request)
            and may_on_cluster(broker, session, Operation.CLUSTER_ACTION, quiet=True)
        ):
            self.limits.drop()
            self.limits = None

    def malformed(self, error: MalformedMessage) -> PeerError:
        return PeerError("malformed", f"{self.entry.name} v{self.version} that does not parse: {error}")


def _read_header(session: Session, frame: memoryview | bytes) -> int:
    """The offset of the request's body; sets the session's client id."""
    header = parse_request_header(frame)
    end = session.client_end
    if frame[_HEAD_BYTES:end] != session.client_field:
        (size_bytes,) = _CLIENT_ID(frame, _HEAD_BYTES)
        end = _HEAD_BYTES + 2 + max(size_bytes, 0)
        session.name_client(header.client_id, bytes(frame[_HEAD_BYTES:end]))
    return header.body_offset


def _body_offset(session: Session, view: memoryview, flexible: bool) -> int:
    """The same; fast where the client id is that of the request before."""
    end = session.client_end
    if view[_HEAD_BYTES:end] != session.client_field:
        return _read_header(session, view)
    if not flexible:
        return end
    if end < len(view) and view[end] == 0:
        return end + 1
    return _read_header(session, view)  # tagged fields in a header: none is defined


def _is_exempt(asked: "_Asked", request: Any) -> bool:
    """Whether this is a request of another broker, which has no quota."""
    api_key = asked.entry.api_key
    if api_key == _FETCH:
        return bool(request.replica_id >= 0 or request.replica_state.replica_id >= 0)
    if api_key == _OFFSET_FOR_LEADER_EPOCH:
        return bool(request.replica_id >= 0)
    return api_key in _EXEMPT or (api_key == _ADD_PARTITIONS_TO_TXN and asked.version >= _BY_BROKERS_FROM)


class Dispatch:
    """Hands each frame to its handler."""

    takes_empty_frames = False

    def __init__(self, broker: Broker, logins: "Logins | None" = None) -> None:
        """`logins`: of the listeners with SASL."""
        self._broker = broker
        self._logins = logins
        self._tasks: set[asyncio.Future[Any]] = set()
        self.counts = broker.request_counts
        self._times = broker.request_times
        self._now_us = broker.request_times.now_us
        self._allowance = broker.allowance
        self._audited: dict[int, Handler] = {} if broker.audit is None else _audited()

    def connected(self, connection: Connection) -> Dispatcher:
        """This serves a new connection; where the listener has SASL, after the client has logged in."""
        if not connection.session.security_protocol.startswith("SASL_"):
            return self
        from moldau.broker.server.login_gate import LoginGate

        assert self._logins is not None
        return LoginGate(connection, self._broker, self._logins, self)

    def request(self, connection: Connection, view: memoryview, position: int, end: int) -> Parts | None:
        """Serve the frame whose size field stands at `position` in the view; every request passes here."""
        shortcut = connection.shortcut
        if shortcut is not None:
            if shortcut.session_version != connection.session.version:
                connection.shortcut = None  # the client, or its rights, may be others
            elif shortcut.serve(connection, view, position, end):
                return REPEATED
        return self._frame(connection, view[position + 4 : end])

    def _frame(self, connection: Connection, view: memoryview) -> Parts | None:
        """Answer one request: its frame, or None when the answer comes later or not at all."""
        try:
            api_key, version, correlation_id = _HEAD(view)
        except struct.error:
            raise PeerError("short", "a request of fewer than eight bytes") from None
        entry = TABLE.get(api_key)
        if entry is None or not entry.min_version <= version <= entry.max_version:
            return self._unknown(entry, api_key, version, correlation_id)
        self.counts.of(api_key, version).value += 1
        limits = None
        if self._broker.quotas is not None:
            limits = self._limits(connection.session, view)
        if entry.raw is None:
            return self._declared(connection, view, entry, version, correlation_id, limits)
        many_rows = None
        if len(view) <= LARGE_RAW_FRAME_BYTES or entry.handler is None:
            try:
                body = _body_offset(connection.session, view, version >= entry.flexible_from)
                serve: FrameHandler = entry.raw
                if limits is not None:
                    limits.begin()
                return serve(self._broker, connection, view, body, version, correlation_id)
            except MalformedMessage as error:
                raise PeerError(
                    "malformed", f"{entry.name} v{version} that does not parse: {error}"
                ) from error
            except ManyRows:
                many_rows = entry.many_rows
            finally:
                if limits is not None:
                    limits.end()
        asked = _Asked(connection, entry, version, correlation_id, self._now_us(), limits)
        if limits is not None and api_key == _PRODUCE:
            limits.owe(limits.produced(len(view)))
        self._later(asked, self._serve_large(asked, kept(view), many_rows))
        return None

    def _limits(self, session: Session, view: memoryview) -> "ClientLimits | None":
        """The limits of this request's client; None: it has none."""
        quotas = self._broker.quotas
        if quotas is None or not quotas.active:
            return None
        if view[_HEAD_BYTES : session.client_end] != session.client_field:
            try:
                _read_header(session, view)
            except MalformedMessage:
                return None  # its handler says so
        if not session.limits_known:
            session.limits = quotas.limits_of(session.principal, session.client_id)
            session.limits_known = True
        return session.limits

    def _declared(
        self,
        connection: Connection,
        view: memoryview,
        entry: Entry,
        version: int,
        correlation_id: int,
        limits: "ClientLimits | None",
    ) -> Parts | None:
        """A request that is decoded by its declaration."""
        asked = _Asked(connection, entry, version, correlation_id, self._now_us(), limits)
        if len(view) > LARGE_FRAME_BYTES:
            self._later(asked, self._serve_large(asked, kept(view)))
            return None
        asked.begin()
        try:
            return self._at_once(asked, view)
        finally:
            asked.end()

    def _at_once(self, asked: "_Asked", view: memoryview) -> Parts | None:
        """A small request: served in this call, or begun in it."""
        connection, entry = asked.connection, asked.entry
        version, correlation_id = asked.version, asked.correlation_id
        frame = bytes(view)
        try:
            body = _read_header(connection.session, frame)
            request = entry.request_type.decode(frame, version, body)
        except MalformedMessage as error:
            raise asked.malformed(error) from error
        try:
            handler = self._audited.get(entry.api_key, entry.handler)
            assert handler is not None
            asked.exempt(self._broker, request)
            answer = handler(self._broker, asked.context, request)
            if type(answer) is GeneratorType:
                slices = self._broker.slow_lane.slices()
                try:
                    while not slices.spent():
                        next(answer)
                except StopIteration as stop:
                    answer = stop.value
                else:
                    self._later(asked, self._finish_steps(asked, answer, slices))
                    return None
            if not inspect.isawaitable(answer):
                if asked.limits is not None:
                    answer = self._throttled(asked, asked.limits, answer)
                parts = self._encode(entry, version, correlation_id, answer)
                self._times.of(entry.api_key).observe(self._now_us() - asked.began_us)
                return parts
        except Exception:
            return self._failed(entry, version, correlation_id)
        self._later(asked, self._finish_awaited(asked, answer))
        return None

    # What takes longer than a call

    def _later(self, asked: "_Asked", parts: Coroutine[Any, Any, Parts | None]) -> None:
        """Park a slot for the response until it is there."""
        if asked.limits is not None:
            parts = measured(parts, asked)
        task = asyncio.ensure_future(parts)

        # A long poll ends with its client; anything else is finished, as it may change something.
        def lost() -> None:
            task.cancel()

        on_lost = lost if asked.entry.raw is not None else None
        slot = asked.connection.park(blocking=True, on_lost=on_lost)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(done, slot, asked))

    async def _finish_awaited(self, asked: "_Asked", awaitable: Awaitable[Any]) -> Parts:
        answer = await awaitable
        if is_long(answer):
            return await self._encode_long(asked, answer, self._broker.slow_lane.slices())
        if asked.limits is not None:
            answer = self._throttled(asked, asked.limits, answer)
        return self._encode(asked.entry, asked.version, asked.correlation_id, answer)

    async def _finish_steps(
        self, asked: "_Asked", steps: Generator[None, None, Any], slices: Slices
    ) -> Parts:
        with self._broker.slow_lane.paused_collector():  # between the two as well: all rows are alive
            await slices.next_slice()
            answer = await slices.run(steps, asked.is_wanted)
            return await self._encode_long(asked, answer, slices)

    async def _encode_long(self, asked: "_Asked", answer: Any, slices: Slices) -> Parts:
        if type(answer) is list:
            return answer  # a whole frame
        if asked.limits is not None:
            answer = self._throttled(asked, asked.limits, answer)
        if not isinstance(answer, Message):
            return self._encode(asked.entry, asked.version, asked.correlation_id, answer)
        try:
            chunks = await slices.run(answer.encode_in_slices(asked.version), asked.is_wanted)
        finally:
            await slices.run(release(answer))
        size_bytes = sum(map(len, chunks))
        return [response_start(asked.correlation_id, asked.flexible_header, size_bytes), *chunks]

    async def _serve_large(
        self, asked: "_Asked", frame: bytes | memoryview, handler: Handler | None = None
    ) -> Parts | None:
        entry, version = asked.entry, asked.version
        elements_max = self._broker.settings.moldau_request_elements_max
        taken = await self._allowance.acquire(len(frame) // _ELEMENT_BYTES_MIN, elements_max)
        rows_live = ExitStack()
        rows_live.enter_context(self._broker.slow_lane.paused_collector())
        try:
            slices = self._broker.slow_lane.slices()
            await slices.next_slice()
            if not asked.is_wanted():
                raise NotWanted
            try:
                body = _read_header(asked.connection.session, frame)
                steps = entry.request_type.decode_in_slices(frame, version, body, elements_max)
                request = await slices.run(steps, asked.is_wanted)
            except MalformedMessage as error:
                raise asked.malformed(error) from error
            serve = handler or self._audited.get(entry.api_key, entry.handler)
            assert serve is not None
            asked.exempt(self._broker, request)
            answer = serve(self._broker, asked.context, request)
            if type(answer) is GeneratorType:
                answer = await slices.run(answer, asked.is_wanted)
            elif inspect.isawaitable(answer):
                if entry.api_key in _PARKING:
                    taken = self._give_back(taken)
                    rows_live.close()
                    request, frame = None, b""  # the handler drops them sooner, as Kafka does
                    asked.connection.end_handling()
                answer = await answer
            if request is not None:
                await slices.run(release(request))
            return None if answer is None else await self._encode_long(asked, answer, slices)
        finally:
            rows_live.close()
            self._give_back(taken)

    def _give_back(self, taken: int) -> int:
        self._allowance.give_back(taken)
        return 0

    def _finish(self, done: asyncio.Future[Parts | None], slot: Slot, asked: "_Asked") -> None:
        self._tasks.discard(done)
        asked.connection.end_handling()
        if asked.limits is not None and asked.limits.owed_ms:
            asked.connection.mute(asked.limits.take_owed())
        entry, version = asked.entry, asked.version
        self._times.of(entry.api_key).observe(self._now_us() - asked.began_us)
        if done.cancelled():
            slot.exchange.close()
            return
        error = done.exception()
        if error is None:
            slot.fill(done.result())
        elif isinstance(error, PeerError):
            asked.connection.refuse(error)
        elif isinstance(error, EndConnection):
            slot.exchange.close()
        elif not isinstance(error, NotWanted):
            log.error("the handler of %s v%d failed: this is a bug", entry.name, version, exc_info=error)
            parts = self._failure(entry, version, asked.correlation_id)
            if parts is None:
                slot.exchange.close()
                return
            slot.fill(parts)

    def _throttled(self, asked: "_Asked", limits: "ClientLimits", answer: Any) -> Any:
        """The answer with the delay that its client has earned; the connection is muted for as long."""
        told_ms = getattr(answer, "throttle_time_ms", 0)  # what the handler itself has found
        delay_ms = max(limits.request_delay_ms(), limits.take_owed(), told_ms)
        if delay_ms:
            asked.connection.mute(delay_ms)
            if isinstance(answer, EncodedResponse):
                return answer.throttled(asked.version, delay_ms)
            if hasattr(answer, "throttle_time_ms"):
                answer.throttle_time_ms = delay_ms
        return answer

    def _encode(self, entry: Entry, version: int, correlation_id: int, answer: Any) -> bytes:
        flexible = version >= entry.flexible_from and entry.api_key != API_VERSIONS
        return frame_response(correlation_id, flexible, answer.encode(version))

    def _unknown(self, entry: Entry | None, api_key: int, version: int, correlation_id: int) -> bytes:
        if entry is not None and api_key == API_VERSIONS:
            response = entry.request_type.RESPONSE
            answer = response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised())
            return frame_response(correlation_id, False, answer.encode(0))
        what = f"API {api_key}" if entry is None else f"{entry.name} in version {version}"
        raise PeerError("unknown", f"a request for {what}, which this broker does not serve")

    def _failed(self, entry: Entry, version: int, correlation_id: int) -> bytes:
        log.exception("the handler of %s v%d failed: this is a bug", entry.name, version)
        parts = self._failure(entry, version, correlation_id)
        if parts is None:
            raise PeerError("unanswered", f"{entry.name} v{version}, which could not be answered") from None
        return parts

    def _failure(self, entry: Entry, version: int, correlation_id: int) -> bytes | None:
        """A response with UNKNOWN_SERVER_ERROR, if the API has a top-level error; else None."""
        response = entry.request_type.RESPONSE()
        if not hasattr(response, "error_code"):
            return None
        response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        return self._encode(entry, version, correlation_id, response)

    def other_protocol(self, connection: Connection, first_bytes: bytes) -> None:
        """Bytes that are not a Kafka frame: answer HTTP or TLS in kind, and close."""
        connection.listener.other_protocol(connection, first_bytes)


def _audited() -> dict[int, Handler]:
    """The handlers of requests that change the cluster, which tell the audit of them."""
    from moldau.broker.handlers.parts.administrative import CHANGES, audited

    handlers = {}
    for api_key in CHANGES:
        entry = TABLE[api_key]
        assert entry.handler is not None
        handlers[api_key] = audited(entry.handler, api_key, entry.name)
    return handlers
