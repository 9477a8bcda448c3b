"""A frame's meaning: read the header, find the handler, answer in the client's version.

    | api key 2 | api version 2 | correlation id 4 | client id | body ...

Three kinds of entry stand in the table. Produce and Fetch take the frame itself and pack their own answers
(`raw`); any other API is decoded by its declaration and gives a message; and where that message is an
awaitable, the connection keeps its place in the order until it is there.

Errors by whose fault they are: an unknown API or version, or a body that lies, ends the connection with one
line in the log (ApiVersions alone answers, in version 0, because clients ask it to find out); a bug of ours
is logged with its traceback and answered with UNKNOWN_SERVER_ERROR.
"""

import asyncio
import inspect
import logging
import struct
from time import perf_counter_ns
from typing import Any

from moldau.handlers.api_versions import advertised
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.exchange import Slot
from moldau.handlers.registry import TABLE, Entry, FrameHandler
from moldau.protocol.errors import ErrorCode
from moldau.protocol.frames import frame_response, parse_request_header
from moldau.protocol.wire import MalformedMessage
from moldau.server.connection import Connection, Parts, PeerError

log = logging.getLogger("moldau.server")

_HEAD = struct.Struct(">hhi").unpack_from
_CLIENT_ID = struct.Struct(">h").unpack_from
API_VERSIONS = 18
_HEAD_BYTES = 8


class Dispatch:
    """Hands each frame to its handler."""

    def __init__(self, broker: Broker, listener_name: str) -> None:
        self._broker = broker
        self._listener_name = listener_name
        self._tasks: set[asyncio.Future[Any]] = set()
        self._raw = {key: entry for key, entry in TABLE.items() if entry.raw is not None}
        self.counts = broker.request_counts
        self._times = broker.request_times

    def frame(self, connection: Connection, view: memoryview) -> Parts | None:
        """Answer one request: its frame, or None when the answer comes later or not at all."""
        try:
            api_key, version, correlation_id = _HEAD(view)
        except struct.error:
            raise PeerError("short", "a request of fewer than eight bytes") from None
        entry = self._raw.get(api_key)
        if entry is not None and entry.min_version <= version <= entry.max_version:
            counts = self.counts
            key = (api_key, version)
            counts[key] = counts.get(key, 0) + 1
            try:
                body = self._body_offset(view, version >= entry.flexible_from)
                serve: FrameHandler = entry.raw
                return serve(self._broker, connection, view, body, version, correlation_id)
            except MalformedMessage as error:
                raise PeerError(
                    "malformed", f"{entry.name} v{version} that does not parse: {error}"
                ) from error
        return self._general(connection, bytes(view), api_key, version, correlation_id)

    @staticmethod
    def _body_offset(view: memoryview, flexible: bool) -> int:
        try:
            (size_bytes,) = _CLIENT_ID(view, _HEAD_BYTES)
            position: int = _HEAD_BYTES + 2 + (size_bytes if size_bytes > 0 else 0)
            if flexible:
                if view[position] != 0:
                    # Tagged fields in a request header: none is defined, so this is the rare path.
                    return parse_request_header(bytes(view)).body_offset
                position += 1
        except (struct.error, IndexError):
            raise MalformedMessage("the header reaches past the end of the frame") from None
        return position

    def _general(
        self, connection: Connection, frame: bytes, api_key: int, version: int, correlation_id: int
    ) -> Parts | None:
        entry = TABLE.get(api_key)
        if entry is None or not entry.min_version <= version <= entry.max_version:
            return self._unknown(entry, api_key, version, correlation_id)
        counts = self.counts
        counts[api_key, version] = counts.get((api_key, version), 0) + 1
        began_us = perf_counter_ns() // 1000
        try:
            header = parse_request_header(frame)
            request = entry.request_type.decode(frame, version, header.body_offset)
        except MalformedMessage as error:
            raise PeerError("malformed", f"{entry.name} v{version} that does not parse: {error}") from error
        context = RequestContext(
            version,
            correlation_id,
            header.client_id or "",
            connection.client_host,
            connection.client_port,
            self._listener_name,
        )
        try:
            answer = entry.handler(self._broker, context, request)
            if not inspect.isawaitable(answer):
                parts = self._encode(entry, version, correlation_id, answer)
                self._times.of(api_key).observe(perf_counter_ns() // 1000 - began_us)
                return parts
        except Exception:
            return self._failed(entry, version, correlation_id)
        slot = connection.park(blocking=True)
        future = asyncio.ensure_future(answer)
        self._tasks.add(future)
        future.add_done_callback(
            lambda done: self._finish(done, slot, entry, version, correlation_id, began_us)
        )
        return None

    def _finish(
        self,
        done: asyncio.Future[Any],
        slot: Slot,
        entry: Entry,
        version: int,
        correlation_id: int,
        began_us: int,
    ) -> None:
        self._tasks.discard(done)
        self._times.of(entry.api_key).observe(perf_counter_ns() // 1000 - began_us)
        if done.cancelled():
            slot.exchange.close()
            return
        error = done.exception()
        if error is None:
            try:
                slot.fill(self._encode(entry, version, correlation_id, done.result()))
            except Exception as failure:
                error = failure
        if error is not None:
            log.error("the handler of %s v%d failed: this is a bug", entry.name, version, exc_info=error)
            parts = self._failure(entry, version, correlation_id)
            if parts is None:
                slot.exchange.close()
                return
            slot.fill(parts)

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
        """UNKNOWN_SERVER_ERROR, for the APIs whose answer has a place for one error; else None."""
        response = entry.request_type.RESPONSE()
        if not hasattr(response, "error_code"):
            return None
        response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        return self._encode(entry, version, correlation_id, response)

    def foreign(self, connection: Connection, first_bytes: bytes) -> None:
        """Bytes that are no Kafka frame: answer a browser, name a TLS hello, and close."""
        connection.listener.foreign(connection, first_bytes)
