"""One connection to another broker: learns its API versions, then correlates requests and responses.

    made -> ApiVersions -> ready: send ... send        responses by correlation id -> ended
                        -> login -> ready ... -> login again (KIP-368) -> ready

Where the other broker wants a login, `on_greeted` begins it; its requests are sent as any others are, but
before `ready`. While it is repeated, the connection is not ready: nothing else may be sent then, and what
is in flight is answered as usual.

A response that comes after its request has timed out is dropped. If nothing at all has come since that
request was sent, the other end is taken for dead, and the connection ends: over a half-open connection
nothing ever comes. When a connection ends, all that is in flight fails.

Not here: making connections (channel.py).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import cast

from moldau import __version__
from moldau.broker.peers.call import Call, PeerRequest, RawResponse
from moldau.broker.peers.response_frames import MalformedFrame, ResponseFrames
from moldau.common.protocol.frames import frame_request, has_tagged_response_header
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.common.protocol.wire import MalformedMessage, read_uvarint, skip_tags

log = logging.getLogger("moldau.peers")

_API_VERSIONS_VERSION = 3
_UNSUPPORTED_VERSION = 35
_GREETING = 0  # its correlation id; those of requests begin at 1
_IN_FLIGHT_MAX = 10_000

CLOSED = "it closed the connection"

Decode = Callable[[Call, memoryview, int], None]
"""Decodes a response (frame, offset of its body) and answers the call, at once or in slices."""


class NoCommonVersion(Exception):
    """The other broker does not support this request in any version that is allowed."""


class PeerConnection(asyncio.BufferedProtocol):
    """A connection; `on_ready` is called once when requests may be sent, `on_end` once with
    the reason and how many requests were in flight.
    """

    def __init__(
        self,
        *,
        name: str,
        client_id: str,
        frame_bytes_max: int,
        decode: Decode,
        on_ready: Callable[[], None],
        on_end: Callable[[str, int], None],
        on_greeted: Callable[[], None] | None = None,
    ) -> None:
        """`on_greeted` is called once the versions are known, if a login comes next, which ends with
        `be_ready`."""
        self._name = name
        self._client_id = client_id
        self._frames = ResponseFrames(frame_bytes_max)
        self._decode = decode
        self._on_ready, self._on_end, self._on_greeted = on_ready, on_end, on_greeted
        self._greeted = False
        self._transport: asyncio.Transport | None = None
        self._in_flight: dict[int, Call] = {}
        self._correlation_id = _GREETING
        self._versions: dict[int, tuple[int, int]] = {}
        self.ready = False
        self.ended = False
        self.frames_received = 0
        self.frames_before_ready = 0
        """How many frames had come when it became ready for the first time."""

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        if self.ended:
            self._transport.abort()
            return
        hello = ApiVersionsRequest(client_software_name="moldau", client_software_version=__version__)
        body = hello.encode(_API_VERSIONS_VERSION)
        self._transport.write(
            frame_request(hello.KEY, _API_VERSIONS_VERSION, _GREETING, self._client_id, body)
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                if self.ended:
                    return
                self._take(frame)
        except (MalformedFrame, MalformedMessage) as error:
            self.end(f"it sent what cannot be read: {error}")
        except Exception:
            log.exception("a response of another broker could not be handled: this is a bug")
            self.end("its response could not be handled")

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(f"the connection broke: {exc}" if exc else CLOSED)

    # Requests

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """What the other broker supports, by API."""
        return self._versions

    def be_ready(self) -> None:
        """Requests may be sent from now on."""
        self.frames_before_ready = self.frames_before_ready or self.frames_received
        self.ready = True
        self._on_ready()

    def hold(self) -> None:
        """No requests are sent until `be_ready`, but for those of a login."""
        self.ready = False

    def version_of(self, call: Call) -> int:
        """The version to send this request in. NoCommonVersion."""
        kind = type(call.request)
        low, high = self._versions.get(kind.KEY, (0, -1))
        at_most = kind.VERSIONS[1] if call.version_max is None else min(kind.VERSIONS[1], call.version_max)
        at_least = max(kind.VERSIONS[0], call.version_min)
        version = min(at_most, high)
        if version < max(at_least, low):
            name = kind.__name__.removesuffix("Request")
            here = f"this broker in versions {at_least} to {at_most}"
            if kind.KEY not in self._versions:
                raise NoCommonVersion(f"it does not support {name}, nothing was sent")
            raise NoCommonVersion(f"it supports {name} in versions {low} to {high}, {here}; nothing was sent")
        return version

    def send(self, call: Call, body: bytes) -> None:
        """Send a request whose `version` is set; only when ready, or a request of a login."""
        if len(self._in_flight) >= _IN_FLIGHT_MAX:
            call.fail(f"{self._name}: too many requests are in flight; this one was not sent")
            return
        assert self._transport is not None
        self._correlation_id = correlation_id = self._correlation_id % 0x7FFF_FFFF + 1
        self._in_flight[correlation_id] = call
        call.frames_before = self.frames_received
        self._transport.write(
            frame_request(call.request.KEY, call.version, correlation_id, self._client_id, body)
        )

    def timed_out(self, call: Call) -> None:
        """A request in flight was given up, and its response will be dropped. If nothing has come since it
        was sent, this ends the connection.
        """
        if call.frames_before == self.frames_received:
            self.end("nothing came from it for the time of a whole request")

    def give_back(self, frame: memoryview) -> None:
        """The receiver of this raw response is done with it."""
        self._frames.give_back(frame)

    # Responses

    def _take(self, frame: memoryview) -> None:
        self.frames_received += 1
        correlation_id = int.from_bytes(frame[:4], "big")
        if not self._greeted:
            self._take_greeting(correlation_id, frame)
            return
        call = self._in_flight.get(correlation_id)
        if call is None:
            raise MalformedMessage(f"a response with correlation id {correlation_id}, which no request had")
        if not call.done:
            offset = _body_offset(frame, type(call.request), call.version)
            if call.raw:
                call.answer(RawResponse(frame, offset, call.version))
            else:
                self._decode(call, frame, offset)
        del self._in_flight[correlation_id]  # now: a response that cannot be read ends the connection

    def _take_greeting(self, correlation_id: int, frame: memoryview) -> None:
        if correlation_id != _GREETING:
            raise MalformedMessage("a response to no request")
        # A broker that does not know our version of ApiVersions answers in version 0, with this error.
        refused = bytes(frame[4:6]) == _UNSUPPORTED_VERSION.to_bytes(2, "big")
        answer = ApiVersionsResponse.decode(frame, 0 if refused else _API_VERSIONS_VERSION, 4)
        if answer.error_code not in (0, _UNSUPPORTED_VERSION):
            self.end(f"it answered ApiVersions with error {answer.error_code}")
            return
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self._greeted = True
        if self._on_greeted is None:
            self.be_ready()
        else:
            self._on_greeted()

    # The end

    def end(self, reason: str) -> None:
        """End the connection: all that is in flight fails. Ending twice does nothing."""
        if self.ended:
            return
        self.ended, self.ready = True, False
        if self._transport is not None:
            self._transport.abort()
        in_flight, self._in_flight = self._in_flight, {}
        # First: who repeats a failed request must not find this connection.
        self._on_end(reason, len(in_flight))
        for call in in_flight.values():
            call.fail(f"{self._name}: {reason}")


def _body_offset(frame: memoryview, request: type[PeerRequest], version: int) -> int:
    if not has_tagged_response_header(request.KEY, version):
        return 4
    try:
        count, offset = read_uvarint(frame, 4)
        return skip_tags(frame, offset, count, len(frame)) if count else offset
    except IndexError as cause:
        raise MalformedMessage("the response ends within its header") from cause
