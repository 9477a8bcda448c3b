"""Another broker in memory, whose every move a test decides, and the machine around a channel to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from moldau.broker.metadata.image import BrokerState, Image
from moldau.broker.peers.broker_peers import BrokerPeers, Secure
from moldau.common.core.clock import ManualClock
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.declare import Message
from moldau.common.protocol.frames import frame_response, has_tagged_response_header, parse_request_header
from moldau.common.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.common.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.common.protocol.messages.fetch import FetchRequest
from moldau.common.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.common.protocol.messages.sasl_handshake import SaslHandshakeRequest

FRAME_BYTES_MAX = 1 << 20
SPOKEN = [ApiVersionsRequest, EndTxnRequest, FetchRequest, SaslHandshakeRequest, SaslAuthenticateRequest]


class Wire(asyncio.Transport):
    """One connection, as this broker has it; `sent` are the whole requests."""

    def __init__(self, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.sent: list[bytes] = []
        self.ended = False
        self._partial = b""

    def write(self, data: Any) -> None:
        assert not self.ended
        self._partial += bytes(data)
        while len(self._partial) >= 4 and len(self._partial) >= (
            end := 4 + int.from_bytes(self._partial[:4], "big")
        ):
            self.sent.append(self._partial[4:end])
            self._partial = self._partial[end:]

    def abort(self) -> None:
        if not self.ended:
            self.ended = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def lose(self, error: Exception | None = None) -> None:
        """The other end closed, or the connection broke."""
        self.ended = True
        self.protocol.connection_lost(error)

    def deliver(self, data: bytes, piece_bytes: int = 1 << 30) -> None:
        """Bytes from the other end, in pieces of any size."""
        while data and not self.ended:
            space = self.protocol.get_buffer(-1)
            count = min(len(space), len(data), piece_bytes)
            space[:count] = data[:count]
            data = data[count:]
            self.protocol.buffer_updated(count)

    def respond(self, request: bytes, answer: Message, piece_bytes: int = 1 << 30) -> None:
        header = parse_request_header(request)
        flexible = has_tagged_response_header(header.api_key, header.api_version)
        self.deliver(
            frame_response(header.correlation_id, flexible, answer.encode(header.api_version)), piece_bytes
        )

    def greet(self, **versions: tuple[int, int]) -> None:
        """Answer ApiVersions; `versions` by the API's name, else all."""
        rows = []
        for kind in SPOKEN:
            low, high = versions.get(kind.__name__.removesuffix("Request"), kind.VERSIONS)
            if high >= 0:
                rows.append(ApiVersion(api_key=kind.KEY, min_version=low, max_version=high))
        self.respond(self.sent.pop(0), ApiVersionsResponse(api_keys=rows))


class OneNetwork:
    """A network on which every attempt to connect waits for the test to decide."""

    def __init__(self) -> None:
        self.attempts: list[tuple[tuple[str, int], asyncio.Future[None], Callable[[], Any]]] = []
        self.wires: list[Wire] = []
        self.held: asyncio.Future[None] | None = None
        """Until this is done, the task of an attempt that succeeded does not go on."""

    async def connect(
        self, host: str, port: int, make_protocol: Callable[[], Any], tls: object = None
    ) -> Any:
        decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.attempts.append(((host, port), decided, make_protocol))
        await decided
        protocol = make_protocol()
        wire = Wire(protocol)
        self.wires.append(wire)
        protocol.connection_made(wire)
        if self.held is not None:
            try:
                await self.held
            except asyncio.CancelledError:
                wire.abort()  # as an event loop does with the connection of an attempt that is cancelled
                raise
        return wire, protocol

    async def accept(self) -> Wire:
        """Let the one attempt succeed."""
        await turns()
        (_, decided, _) = self.attempts.pop()
        decided.set_result(None)
        await turns()
        return self.wires[-1]

    async def refuse(self) -> None:
        await turns()
        (_, decided, _) = self.attempts.pop()
        decided.set_exception(ConnectionRefusedError(111, "Connection refused"))
        await turns()


class AtOnce(Executor):
    """A worker that works while it is asked."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class Here:
    """A broker's machine."""

    def __init__(self, secure: Secure = lambda listener: None) -> None:
        self.workers = AtOnce()
        self.loop = asyncio.get_running_loop()
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.random = random.Random(7)
        self.network = OneNetwork()
        self.image = image(1)
        self.peers = BrokerPeers(
            1,
            lambda: self.image,
            self,  # type: ignore[arg-type]
            SlowLane(),
            purpose="test",
            listener_name=None,
            setup_timeout_ms=10_000,
            frame_bytes_max=FRAME_BYTES_MAX,
            secure=secure,
        )

    def ask(self, timeout_ms: int = 1000, **bounds: int) -> asyncio.Future[EndTxnResponse]:
        """A request to broker 2."""
        request = EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=0, committed=True)
        return self.peers.send(2, request, timeout_ms=timeout_ms, **bounds)  # type: ignore[return-value]

    async def opened(self) -> Wire:
        """An open connection over which one request was answered."""
        asked = self.ask()
        wire = await self.network.accept()
        wire.greet()
        wire.respond(wire.sent.pop(), EndTxnResponse())
        await asked
        return wire

    async def pass_ms(self, duration_ms: int) -> None:
        self.timers.advance(duration_ms)
        await turns()


def image(broker_epoch: int, port: int = 9092, *, node_ids: tuple[int, ...] = (1, 2)) -> Image:
    brokers = {
        node: BrokerState(node, broker_epoch, {"INSIDE": (f"host{node}", port), "OUTSIDE": ("out", 1)})
        for node in node_ids
    }
    return Image(version=broker_epoch, brokers=brokers)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
