"""Workers and consumers of a group whose brokers, leaders and coordinators change.

What one broker's worker and consumer do (sim_worker.py, sim_consumer.py), with each request sent to the
broker that serves it now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim_admin import GROUP, TRANSACTION
from sim_client import SimClient
from sim_cluster_producer import ClusterProducer
from sim_consumer import Consumer
from sim_member import ClassicMember, ConsumerMember, Member
from sim_network import Endpoint
from sim_producer import Fatal, SimProducer
from sim_routes import ClusterClient, Routed
from sim_worker import TRANSACTION_TIMEOUT_MS, Worker
from sim_world import World

from moldau.common.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.common.protocol.messages.fetch import FetchRequest


class Everywhere(SimClient):
    """A `SimClient` that sends each request where it belongs: to a leader, a coordinator, or anyone."""

    def __init__(self, cluster: ClusterClient) -> None:
        self.cluster = cluster
        self.world, self.name, self.random = cluster.world, cluster.name, cluster.random
        self.process, self.network = cluster.process, cluster.network
        self._routes: dict[Any, Routed] = {}

    async def call(self, request: Any, version: int) -> Any:
        return await self._route(request).call(request, version)

    async def pause(self) -> None:
        await self.cluster.pause()

    def _route(self, request: Any) -> Routed:
        key: Any
        if isinstance(request, FetchRequest):
            key = (request.topics[0].topic, request.topics[0].partitions[0].partition)
            return self._routes.setdefault(key, self.cluster.leader(key))
        group_id = getattr(request, "group_id", "")
        if group_id and not isinstance(request, AddOffsetsToTxnRequest):
            key = (GROUP, group_id)
        else:
            names = ("transactional_id", "v3_and_below_transactional_id")
            key = (
                TRANSACTION,
                next((getattr(request, name) for name in names if hasattr(request, name)), ""),
            )
        if not key[1]:
            return self.cluster.anyone()
        return self._routes.setdefault(key, self.cluster.coordinator(key[1], key[0]))


class ClusterWorker(Worker):
    """One consumer and one transactional producer, through all their lives."""

    def __init__(self, world: World, name: str, brokers: Sequence[Endpoint], **told: Any) -> None:
        super().__init__(world, name, brokers[0], **told)
        self._brokers = list(brokers)

    def start(self) -> None:
        self.lives += 1
        life = f"{self.name}.{self.lives}"
        cluster = ClusterClient(self._world, life, self._brokers)
        self.client = Everywhere(cluster)
        member = ClusterClient(self._world, f"{life}/member", self._brokers, cluster.process)
        self.member = self._member_type(Everywhere(member), self.group_id, self._source)
        self.client.background(self._run())

    async def _new_producer(self) -> SimProducer:
        assert isinstance(self.client, Everywhere)
        while True:
            producer = ClusterProducer(
                self.client.cluster,
                transactional_id=f"worker-{self.name}",
                transactions=self._transactions,
                timeout_ms=TRANSACTION_TIMEOUT_MS,
            )
            producer.client = self.client
            try:
                await producer.initialise()
            except Fatal:
                await self.client.pause()
            else:
                return producer


class ClusterConsumer(Consumer):
    """One member, alive all the while."""

    def __init__(
        self,
        world: World,
        name: str,
        brokers: Sequence[Endpoint],
        *,
        group_id: str,
        protocol: str,
        topics: dict[str, int],
    ) -> None:
        cluster = ClusterClient(world, name, brokers)
        super().__init__(
            world, f"{name}/none", brokers[0], group_id=group_id, protocol=protocol, topics=topics
        )
        self.client = Everywhere(cluster)
        kind: type[Member] = ClassicMember if protocol == "classic" else ConsumerMember
        member = ClusterClient(world, f"{name}/member", brokers, cluster.process)
        self.member = kind(Everywhere(member), group_id, topics)
