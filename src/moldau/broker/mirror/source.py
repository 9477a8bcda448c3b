"""The cluster that a link mirrors: its brokers, its topics, and requests to its brokers.

Connections are made as between brokers (peers/channel.py), with the link's own TLS and login, one for each
broker and purpose: a long fetch must not hold up a question. Any broker that answers tells of all others;
while none of the known ones does, those of bootstrap.servers are asked in turn.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.broker.mirror.link_settings import address
from moldau.broker.mirror.parts import MirrorParts
from moldau.broker.peers.call import Call, PeerRequest
from moldau.broker.peers.channel import Channel
from moldau.broker.peers.peers import PeerError
from moldau.common.core.ids import ZERO_UUID
from moldau.common.credentials.client.options import ClientSecurity, client_security
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

ASK_TIMEOUT_MS = 10_000
SETUP_TIMEOUT_MS = 5_000
FETCH = "fetch"
ASK = "ask"


class SourcePartition(NamedTuple):
    """Who leads a partition there (-1: nobody), in which leader epoch (-1: it does not tell)."""

    leader: int
    leader_epoch: int


class SourceTopic(NamedTuple):
    """A topic there. Its id is zero where there are no ids."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, SourcePartition]
    error_code: int = 0
    is_internal: bool = False


class SourceCluster:
    """Requests of one broker over one link."""

    def __init__(self, parts: MirrorParts, link: str, settings: Mapping[str, str]) -> None:
        """CredentialsError, SettingError: the settings cannot be used."""
        self._parts = parts
        self._link = link
        self._security: ClientSecurity = client_security(settings)
        self._bootstrap = [address(each) for each in settings["bootstrap.servers"].split(",") if each.strip()]
        self._turn = 0
        self._brokers: dict[int, tuple[str, int]] = {}
        self._channels: dict[tuple[tuple[str, int], str], Channel] = {}
        self.cluster_id = ""
        self._closed = False

    async def send(
        self,
        node_id: int,
        request: PeerRequest,
        *,
        purpose: str = ASK,
        timeout_ms: int = ASK_TIMEOUT_MS,
        version_min: int = 0,
        version_max: int | None = None,
    ) -> Any:
        """A broker's answer. PeerError; Unsupported if it has no such version."""
        endpoint = self._brokers.get(node_id)
        if endpoint is None:
            raise PeerError(f"broker {node_id} of the source is not known")
        return await self._send(endpoint, purpose, request, timeout_ms, version_min, version_max)

    def brokers(self) -> list[int]:
        """The source's brokers, as they were told last."""
        return sorted(self._brokers)

    async def ask_any(
        self,
        request: PeerRequest,
        *,
        timeout_ms: int = ASK_TIMEOUT_MS,
        version_min: int = 0,
        version_max: int | None = None,
    ) -> Any:
        """The answer of any broker. PeerError, of the last one that was tried."""
        known = [*self._brokers.values()]
        tried: PeerError | None = None
        places = [*known[self._turn % max(1, len(known)) :][:2], *self._bootstrap]
        for endpoint in dict.fromkeys(places):
            try:
                return await self._send(endpoint, ASK, request, timeout_ms, version_min, version_max)
            except PeerError as error:
                self._turn += 1
                tried = error
        raise tried or PeerError("there is no broker to ask")

    async def _send(
        self,
        endpoint: tuple[str, int],
        purpose: str,
        request: PeerRequest,
        timeout_ms: int,
        version_min: int,
        version_max: int | None,
    ) -> Any:
        if self._closed:
            raise PeerError("the link is closed")
        future: asyncio.Future[Any] = self._parts.host.loop.create_future()
        self._channel(endpoint, purpose).send(Call(request, version_min, version_max, future), timeout_ms)
        return await future

    def _channel(self, endpoint: tuple[str, int], purpose: str) -> Channel:
        channel = self._channels.get((endpoint, purpose))
        if channel is None:
            parts = self._parts
            channel = Channel(
                f"the source's broker at {endpoint[0]}:{endpoint[1]}",
                endpoint,
                parts.host,
                parts.lane,
                client_id=f"moldau-mirror-{self._link}-{parts.node_id}",
                setup_timeout_ms=SETUP_TIMEOUT_MS,
                frame_bytes_max=parts.frame_bytes_max,
                security=(lambda: self._security) if self._security.secured else None,
            )
            self._channels[endpoint, purpose] = channel
        return channel

    async def topics(self, names: list[str] | None) -> dict[str, SourceTopic]:
        """Topics by name (None: all that may be seen), as the source knows them now. PeerError."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer: MetadataResponse = await self.ask_any(request, version_min=4)
        self._learn(answer)
        found: dict[str, SourceTopic] = {}
        slices = self._parts.lane.slices()
        for topic in answer.topics:
            if topic.name is None:
                continue
            partitions = {
                row.partition_index: SourcePartition(row.leader_id, row.leader_epoch)
                for row in topic.partitions
            }
            topic_id = topic.topic_id or ZERO_UUID
            found[topic.name] = SourceTopic(
                topic.name, topic_id, partitions, topic.error_code, topic.is_internal
            )
            if slices.spent():
                await slices.next_slice()
        return found

    def _learn(self, answer: MetadataResponse) -> None:
        self.cluster_id = answer.cluster_id or ""
        brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        if not brokers:
            return
        self._brokers = brokers
        kept = {*brokers.values(), *self._bootstrap}
        for key in [key for key in self._channels if key[0] not in kept]:
            self._channels.pop(key).close("it is not a broker of the source any more")

    def close(self) -> None:
        """Close all connections; what is under way fails."""
        self._closed = True
        for channel in self._channels.values():
            channel.close("the link is closed")
        self._channels.clear()
