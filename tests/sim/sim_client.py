"""A client process that speaks the protocol through Moldau's own codecs, and may be killed like any process.

It keeps one connection to its broker, sends without waiting when it is told to, and makes a new connection
when the old one is lost. Whether a request is sent again is for its caller to say: a lost answer means that
the request was served or not.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar, cast

from sim_network import ProcessNetwork
from sim_process import Process
from sim_world import World

from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request, has_tagged_response_header
from moldau.common.protocol.messages.fetch import FetchRequest, FetchResponse
from moldau.common.protocol.messages.produce import ProduceRequest, ProduceResponse

T = TypeVar("T")

_TOPIC_IDS_VERSION = 13

ANSWER_SECONDS_MAX = 30.0
RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class Disconnected(Exception):
    """The connection ended before the answer came, or could not be made."""


class Channel(asyncio.Protocol):
    """One connection: requests in order, answers in the same order."""

    def __init__(self) -> None:
        self.topic_ids: Mapping[str, bytes] = {}
        """Topics that Fetch and Produce name by these ids: of a topic that was made again a broker may know
        the old one only, and by name it would answer for that."""
        self.transport: Any = None
        self.lost = False
        self._waiting: list[tuple[int, Message, int, asyncio.Future[Message]]] = []
        self._received = bytearray()
        self._next = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        waiting, self._waiting = self._waiting, []
        for _, _, _, future in waiting:
            if not future.done():
                future.set_exception(Disconnected(str(exc)))
                future.exception()  # not every caller still waits

    def send(self, request: Message, version: int, client_id: str) -> asyncio.Future[Any]:
        """Send, and give the answer's future, which may raise Disconnected."""
        self._next += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.lost:
            future.set_exception(Disconnected("the connection is lost"))
            return future
        version = max(version, self._name_by_id(request))
        self._waiting.append((self._next, request, version, future))
        frame = frame_request(request.KEY, version, self._next, client_id, request.encode(version))
        self.transport.write(frame)
        return future

    def _name_by_id(self, request: Message) -> int:
        """Put the ids into a request; the lowest version in which they are sent, 0 without any."""
        if not self.topic_ids:
            return 0
        if isinstance(request, FetchRequest):
            for topic in request.topics:
                topic.topic_id = self.topic_ids[topic.topic]
            return _TOPIC_IDS_VERSION
        if isinstance(request, ProduceRequest):
            for each in request.topic_data:
                each.topic_id = self.topic_ids[each.name]
            return _TOPIC_IDS_VERSION
        return 0

    def _name_by_name(self, answer: Any) -> None:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        for topic in answer.responses:
            if isinstance(answer, FetchResponse):
                topic.topic = names[topic.topic_id]
            else:
                topic.name = names[topic.topic_id]

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= 4:
            (size,) = struct.unpack_from(">i", received)
            if len(received) < 4 + size:
                break
            frame = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            number, request, version, future = self._waiting.pop(0)
            (answered,) = struct.unpack_from(">i", frame)
            assert answered == number, f"answer {answered} came where {number} was due"
            start = 5 if has_tagged_response_header(request.KEY, version) else 4
            answer = type(request).RESPONSE.decode(frame[start:], version)
            if self.topic_ids and isinstance(answer, FetchResponse | ProduceResponse):
                self._name_by_name(answer)
            if not future.done():
                future.set_result(answer)


class SimClient:
    """A process with a connection to one broker."""

    def __init__(
        self, world: World, name: str, address: tuple[str, int], process: Process | None = None
    ) -> None:
        """`process`: another client's, which has a further connection then."""
        self.world = world
        self.name = name
        self.random = world.draw(name)
        self.process = process or world.process(name)
        self.network = ProcessNetwork(world.network, self.process)
        self._address = address
        self._channel: Channel | None = None
        self._connecting: asyncio.Lock = asyncio.Lock()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run this as the client's doing."""
        return self.world.spawn(self.process, work)

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """As `spawn`, for what nobody waits for."""
        self.world.background(self.process, work)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    async def connect(self) -> Channel:
        """The connection, made now if need be. Disconnected when nobody is there."""
        async with self._connecting:
            channel = self._channel
            if channel is None or channel.lost:
                try:
                    _, channel = await self.network.connect(*self._address, Channel)
                except OSError as error:
                    raise Disconnected(str(error)) from error
                self._channel = channel
            return cast(Channel, channel)

    async def call(self, request: Message, version: int) -> Any:
        """Send and wait. Disconnected when no answer comes."""
        channel = await self.connect()
        future = channel.send(request, version, self.name)
        try:
            return await asyncio.wait_for(future, ANSWER_SECONDS_MAX)
        except TimeoutError:
            self.drop()
            raise Disconnected("no answer in time") from None

    async def persist(self, request: Message, version: int) -> Any:
        """Send again until an answer comes."""
        while True:
            try:
                return await self.call(request, version)
            except Disconnected:
                await self.pause()

    async def pause(self) -> None:
        """Before the next try."""
        await asyncio.sleep(0.01 + 0.1 * self.random.random())

    def drop(self) -> None:
        """End the connection, as a client does that has lost its patience."""
        if self._channel is not None and not self._channel.lost:
            self._channel.transport.abort()
