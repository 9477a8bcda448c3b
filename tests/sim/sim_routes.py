"""Clients of a cluster: each request goes to the broker that serves it now, as Kafka's clients find it.

    ClusterClient      a process: what it knows of brokers and leaders, one connection to each broker
    Routed             a `SimClient` whose requests go to a partition's leader, to a coordinator, or to anyone
    NearReplica        as `Routed` to a leader, which may name a follower to fetch from

What holds for one broker's client holds here: a `Routed` sends, waits, and gives up a connection that does
not answer. When an answer tells that another broker is meant (NOT_LEADER_OR_FOLLOWER, NOT_COORDINATOR, a
fenced or unknown epoch), the way is forgotten, and looked up again before the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast

from sim_client import Channel, Disconnected, SimClient
from sim_network import Endpoint, ProcessNetwork
from sim_process import Process
from sim_world import World
from torture.reading import Place

from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import FetchRequest
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.common.protocol.messages.metadata import MetadataRequest

T = TypeVar("T")

PATIENCE_SECONDS = 3.0
"""How long an answer may take, beyond what the request itself says."""
_LEADERLESS = -1
_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


class ClusterClient:
    """One process, and what it knows of the cluster."""

    def __init__(
        self,
        world: World,
        name: str,
        brokers: Sequence[Endpoint],
        process: Process | None = None,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> None:
        """`topic_ids`: by which Fetch and Produce name topics, all of them (`Channel.topic_ids`)."""
        self._topic_ids = topic_ids or {}
        self.world, self.name = world, name
        self.random = world.draw(name)
        self.process = process or world.process(name)
        self.network = ProcessNetwork(world.network, self.process)
        self.leaders: dict[Place, tuple[Endpoint, int]] = {}
        """Leader and leader epoch."""
        self.addresses: dict[int, Endpoint] = {}
        """Brokers by node id, as the metadata last had them."""
        self._brokers = list(brokers)
        self._channels: dict[Endpoint, Channel] = {}
        self._connecting: dict[Endpoint, asyncio.Lock] = {}

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run this as the client's doing."""
        return self.world.spawn(self.process, work)

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """As `spawn`, for what nobody waits for."""
        self.world.background(self.process, work)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    async def pause(self) -> None:
        """Before the next try."""
        await asyncio.sleep(0.02 + 0.2 * self.random.random())

    # Routes

    def anyone(self) -> Routed:
        """To any broker."""
        return Routed(self, _Anyone(self))

    def leader(self, place: Place) -> Routed:
        """To the leader of a partition."""
        return Routed(self, _Leader(self, place))

    def coordinator(self, key: str, kind: int) -> Routed:
        """To the coordinator of a group or transactional id."""
        return Routed(self, _Coordinator(self, key, kind))

    def some_broker(self) -> Endpoint:
        """Any of them."""
        return self.random.choice(self._brokers)

    async def leader_of(self, place: Place) -> Endpoint:
        """The leader's address as far as is known. Disconnected where there is none."""
        if place not in self.leaders:
            await self.refresh()
        known = self.leaders.get(place)
        if known is None:
            raise Disconnected(f"{place[0]}-{place[1]} has no leader")
        return known[0]

    async def refresh(self) -> None:
        """Ask any broker for all leaders."""
        answer = await self.ask(self.some_broker(), MetadataRequest(topics=None), 9)
        addresses = self.addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            for row in topic.partitions:
                place = (topic.name, row.partition_index)
                if row.leader_id in addresses:
                    self.leaders[place] = (addresses[row.leader_id], row.leader_epoch)

    # Requests

    async def channel(self, address: Endpoint) -> Channel:
        """The connection to this broker, made now if need be. Disconnected when nobody is there."""
        async with self._connecting.setdefault(address, asyncio.Lock()):
            channel = self._channels.get(address)
            if channel is None or channel.lost:
                try:
                    _, made = await self.network.connect(*address, Channel)
                except OSError as error:
                    raise Disconnected(str(error)) from error
                channel = self._channels[address] = cast(Channel, made)
                channel.topic_ids = self._topic_ids
            return channel

    async def ask(self, address: Endpoint, request: Message, version: int) -> Any:
        """Send to this broker, and wait. Disconnected when no answer comes in time."""
        channel = await self.channel(address)
        return await answered(channel, channel.send(request, version, self.name), _own_seconds(request))


async def answered(channel: Channel, future: asyncio.Future[Any], more_seconds: float = 0.0) -> Any:
    """The answer; Disconnected, and the connection is given up, when it does not come in time."""
    try:
        return await asyncio.wait_for(future, PATIENCE_SECONDS + more_seconds)
    except TimeoutError:
        if not channel.lost:
            channel.transport.abort()
        raise Disconnected("no answer in time") from None


def _own_seconds(request: Message) -> float:
    """How long the request itself says that it may take."""
    waits = ("max_wait_ms", "timeout_ms", "rebalance_timeout_ms")
    return max(0.0, *(getattr(request, name, 0) for name in waits)) / 1000


class Routed(SimClient):
    """A `SimClient` whose broker is looked up."""

    def __init__(self, cluster: ClusterClient, route: Any) -> None:
        self.cluster, self._route = cluster, route
        self.world, self.name, self.random = cluster.world, cluster.name, cluster.random
        self.process, self.network = cluster.process, cluster.network

    async def connect(self) -> Channel:
        return await self.cluster.channel(await self._route.find())

    async def call(self, request: Message, version: int) -> Any:
        if isinstance(request, FindCoordinatorRequest | MetadataRequest):
            return await self.cluster.ask(self.cluster.some_broker(), request, version)
        try:
            answer = await self.cluster.ask(await self._route.find(), request, version)
        except Disconnected:
            self._route.forget()
            raise
        if not _ELSEWHERE.isdisjoint(error_codes(answer)):
            self._route.forget()
        return answer

    async def pause(self) -> None:
        await self.cluster.pause()


class _Anyone:
    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._address = cluster.some_broker()

    async def find(self) -> Endpoint:
        return self._address

    def forget(self) -> None:
        self._address = self._cluster.some_broker()


class _Leader:
    def __init__(self, cluster: ClusterClient, place: Place) -> None:
        self._cluster, self._place = cluster, place

    async def find(self) -> Endpoint:
        return await self._cluster.leader_of(self._place)

    def forget(self) -> None:
        self._cluster.leaders.pop(self._place, None)


class _Coordinator:
    def __init__(self, cluster: ClusterClient, key: str, kind: int) -> None:
        self._cluster, self._key, self._kind = cluster, key, kind
        self._address: Endpoint | None = None

    async def find(self) -> Endpoint:
        if self._address is None:
            request = FindCoordinatorRequest(key=self._key, key_type=self._kind)
            answer = await self._cluster.ask(self._cluster.some_broker(), request, 3)
            if answer.error_code:
                raise Disconnected(f"no coordinator for {self._key}: error {answer.error_code}")
            self._address = (answer.host, answer.port)
        return self._address

    def forget(self) -> None:
        self._address = None


class NearReplica(Routed):
    """To a partition's leader, or to the replica in the client's rack that the leader names (KIP-392)."""

    def __init__(self, cluster: ClusterClient, place: Place, rack: str) -> None:
        super().__init__(cluster, _Leader(cluster, place))
        self._rack = rack
        self._near: Endpoint | None = None

    async def call(self, request: Message, version: int) -> Any:
        if not isinstance(request, FetchRequest):
            return await super().call(request, version)
        request.rack_id = self._rack
        near, self._near = self._near, None
        if near is None:
            answer = await super().call(request, version)
        else:
            answer = await self.cluster.ask(near, request, version)
        row = answer.responses[0].partitions[0]
        if row.preferred_read_replica >= 0:
            assert not row.records, "records, and another replica to read from"
            if row.preferred_read_replica not in self.cluster.addresses:
                await self.cluster.refresh()  # it was away when the brokers were asked for last
            self._near = self.cluster.addresses.get(row.preferred_read_replica)
        elif near is not None and row.error_code:
            return await super().call(request, version)  # only the leader's word counts
        elif near is not None and self.random.random() < 0.9:
            self._near = near
        return answer


def error_codes(answer: Any) -> set[int]:
    """Every error code in an answer."""
    found: set[int] = set()
    rest = [answer]
    while rest:
        one = rest.pop()
        for name in one.__slots__:
            value = getattr(one, name)
            if name.endswith("error_code"):
                found.add(value)
            elif isinstance(value, list) and value and hasattr(value[0], "__slots__"):
                rest += value
    found.discard(0)
    return found
