"""Several whole brokers in this process on one metadata store in memory, asked through their connections.

`Brokers` starts them; `ask` sends one request, through its bytes, to one of them. Their sockets are bound;
clients here do without them.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from data_plane_world import Client
from jumping_time import until

from moldau.broker.controller.decision import Decision
from moldau.broker.controller.topics import NewTopic
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.host import system_host
from moldau.broker.metadata.changes import Change
from moldau.broker.node import Node
from moldau.broker.replication.partition import Partition
from moldau.broker.stages import replication
from moldau.broker.stages.replication import Replication
from moldau.common.core.clock import SystemClock
from moldau.common.protocol.frames import frame_request
from moldau.common.settings.sources import from_texts
from moldau.testing.shared_memory import SharedMemory


class ClockAhead(SystemClock):
    """A machine's clock that is wrong by so much."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


class NoFetches:
    """Stands for a broker's fetches: none. A test that uses it appends to followers itself."""

    def fetch_from(self, partition: Partition, fetch: object) -> None: ...

    def stop(self, partition: Partition) -> None: ...

    def begin(self) -> None: ...

    def image_changed(self, image: object) -> None: ...

    def close(self) -> None: ...

    def lags(self) -> Iterator[tuple[Partition, int, int]]:
        return iter(())


class Brokers:
    """Brokers 1, 2, ... of one cluster. `replicates`: whether followers fetch by themselves."""

    def __init__(self, folder: Path, *, replicates: bool = True, **texts: str) -> None:
        self._folder = folder
        self._replicates = replicates
        self._texts = {name.replace("_", "."): value for name, value in texts.items()}
        self.nodes: dict[int, Node] = {}

    def settings(self, node_id: int, **texts: str) -> dict[str, str]:
        """A broker's settings: those of all, and its own."""
        return {
            "node.id": str(node_id),
            "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
            "log.dirs": str(self._folder / str(node_id)),
            "moldau.http.listener": "",
            "broker.rack": f"rack-{node_id}",
            **self._texts,
            **{name.replace("_", "."): value for name, value in texts.items()},
        }

    async def start(self, *node_ids: int, clock_ahead_ms: int = 0, **texts: str) -> None:
        """Start these, one after the other; their clocks are that much ahead."""
        for node_id in node_ids:
            host = system_host()
            if not self.nodes:
                self.ensemble = SharedMemory(host.timers, session_timeout_ms=60_000)
            ensemble = self.ensemble
            host = replace(
                host,
                metadata_store=lambda *_, ensemble=ensemble: ensemble.store(),
                clock=ClockAhead(clock_ahead_ms),
            )
            node = Node(from_texts(self.settings(node_id, **texts)), host)
            if self._replicates:
                await node.start()
            else:
                with patch.object(replication, "make_fetcher", lambda *_: NoFetches()):
                    await node.start()
                node.reached(Replication).fetcher.made = NoFetches()  # type: ignore[assignment]
            self.nodes[node_id] = node
        await self.in_step()

    async def stop(self) -> None:
        """Stop all, the last one first."""
        for node in reversed(list(self.nodes.values())):
            await node.stop()

    async def in_step(self) -> None:
        """Wait until every broker knows the newest metadata."""
        await until(
            lambda: (
                {node.metadata.image.version for node in self.nodes.values()} == {self.ensemble.image.version}
            )
        )

    async def decided(self, *changes: Change) -> None:
        """Append these changes, whatever they are; every broker follows."""
        node = next(iter(self.nodes.values()))
        await node.controller.decide(lambda image: Decision(list(changes), None))
        await self.in_step()

    async def topic(self, name: str, *assignments: tuple[int, ...], **configs: str) -> None:
        """Create a topic whose partitions have these replicas; every broker follows."""
        node = next(iter(self.nodes.values()))
        wanted = NewTopic(
            name,
            assignments=list(enumerate(assignments)),
            configs={k.replace("_", "."): v for k, v in configs.items()},
        )
        (result,) = await node.controller.create_topics([wanted])
        assert not result.outcome.failed, result.outcome.message
        await self.in_step()
        for index, replicas in enumerate(assignments):
            for node_id in replicas:
                if node_id in self.nodes:
                    here = self.nodes[node_id].replicas
                    await until(lambda here=here, index=index: here.partition(name, index) is not None)

    def partition(self, node_id: int, topic: str = "t", index: int = 0) -> Partition:
        """A broker's replica."""
        partition = self.nodes[node_id].replicas.partition(topic, index)
        assert partition is not None
        return partition


def with_brokers(
    folder: Path,
    node_ids: tuple[int, ...],
    scene: Callable[[Brokers], Awaitable[None]],
    *,
    replicates: bool = True,
    **texts: str,
) -> None:
    """Run the scene with these brokers; with none, it starts them itself."""

    async def main() -> None:
        brokers = Brokers(folder, replicates=replicates, **texts)
        try:
            if node_ids:
                await brokers.start(*node_ids)
            await scene(brokers)
        finally:
            await brokers.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


def client_of(node: Node, listener: str = "PLAINTEXT") -> Client:
    """A connection to this listener of the node."""
    return Client(node, [one.name for one in node.listeners.all].index(listener))


def send(client: Client, request: Any, version: int | None = None) -> int:
    """Send a request, and go on; returns its version, the newest if None."""
    entry = TABLE[type(request).KEY]
    version = entry.max_version if version is None else version
    client.feed(frame_request(entry.api_key, version, 7, "test", request.encode(version)))
    return version


def answers(client: Client, kind: Any, version: int) -> list[Any]:
    """The answers that have come, all to requests of one kind and version."""
    flexible = kind.FLEXIBLE_FROM is not None and version >= kind.FLEXIBLE_FROM
    found, data = [], bytes(client.transport.sent)
    while data:
        (size,) = struct.unpack_from(">i", data)
        found.append(kind.RESPONSE.decode(data[9 if flexible else 8 : 4 + size], version))
        data = data[4 + size :]
    return found


async def answered(client: Client, request: Any, version: int) -> Any:
    """The next answer to a request that was sent."""
    await until(lambda: client.transport.sent or client.transport.closed)
    assert not client.transport.closed
    (found,) = answers(client, type(request), version)
    client.transport.sent.clear()
    return found


async def ask(node: Node, request: Any, version: int | None = None, listener: str = "PLAINTEXT") -> Any:
    """Send one request on a connection of its own; gives the answer."""
    client = client_of(node, listener)
    version = send(client, request, version)
    return await answered(client, request, version)
