"""Several brokers' controllers on one store in memory, with a clock that the test moves."""

import asyncio
import random
from contextlib import asynccontextmanager

from moldau.broker.controller.controller import Controller
from moldau.broker.controller.partitions import AlterPartition
from moldau.broker.controller.topics import NewTopic
from moldau.broker.metadata.view import MetadataView
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.sources import from_texts
from moldau.testing.shared_memory import SharedMemory

SESSION_TIMEOUT_MS = 6_000


class Cluster:
    """Brokers without partitions: a controller each, on one ensemble in memory."""

    def __init__(self):
        self.timers = ManualTimers(ManualClock())
        self.ensemble = SharedMemory(self.timers, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.brokers = {}
        self.stores = {}

    async def begin(self, node_id, *, in_cluster=False):
        """A broker whose controller is open, and has not registered yet."""
        static = from_texts({"node.id": str(node_id), "min.insync.replicas": "2"})
        store = self.ensemble.store()
        controller = Controller(
            node_id,
            store,
            MetadataView(),
            static,
            random.Random(node_id),
            timers=self.timers,
            in_cluster=in_cluster,
        )
        await controller.this_broker.open()
        self.stores[node_id], self.brokers[node_id] = store, controller
        return controller

    async def start(self, *node_ids, previous=-1):
        for node_id in node_ids:
            controller = await self.begin(node_id)
            await controller.this_broker.register({"P": ("host", 9090 + node_id)}, None, [previous])
        await self.settle()
        return [self.brokers[node_id] for node_id in node_ids]

    async def settle(self):
        """Let everything that is on its way arrive; what the brokers know is then the same."""
        for _ in range(30):
            await asyncio.sleep(0)

    async def vanish(self, node_id):
        """A process is gone; the ensemble does not know it yet."""
        store, controller = self.stores.pop(node_id), self.brokers.pop(node_id)
        await controller.this_broker.presence.close()
        store._deliver = None
        self.ensemble.disconnect(store)

    async def crash(self, node_id):
        """A process is gone, and its session has ended."""
        await self.vanish(node_id)
        await self.wait_ms(SESSION_TIMEOUT_MS)

    async def wait_ms(self, duration_ms):
        self.timers.advance(duration_ms)
        await self.settle()

    @property
    def image(self):
        """What all brokers that are connected know."""
        images = [
            controller.view.image
            for node_id, controller in self.brokers.items()
            if self.stores[node_id]._connected.is_set()
        ]
        assert all(image == images[0] == self.ensemble.image for image in images)
        return images[0]

    def partition(self, name="a"):
        state = self.image.topics[name].partitions[0]
        return state.leader, state.isr, state.elr

    async def topic(self, name="a", replicas=(1, 2, 3), **configs):
        configs = {key.replace("_", "."): value for key, value in configs.items()}
        asked = NewTopic(name, assignments=[(0, replicas)], configs=configs)
        (result,) = await self.brokers[2].create_topics([asked])
        assert result.outcome.error_code is ErrorCode.NONE
        await self.settle()

    async def in_sync(self, name, isr):
        """The leader asks for this in-sync set, and gets it."""
        state = self.image.topics[name].partitions[0]
        leader = self.brokers[state.leader]
        asked = AlterPartition(name, 0, state.leader_epoch, state.partition_epoch, isr)
        ((_, outcome, _),) = await leader.alter_partitions(
            state.leader, leader.this_broker.broker_epoch, [asked]
        )
        assert outcome.error_code is ErrorCode.NONE
        await self.settle()


@asynccontextmanager
async def cluster_of(count):
    """A cluster of brokers 1 to `count`, which are closed in the end."""
    cluster = Cluster()
    try:
        await cluster.start(*range(1, count + 1))
        yield cluster
    finally:
        for controller in cluster.brokers.values():
            await controller.this_broker.close()


def run(scenario, count=3):
    """Run a scenario on a cluster."""

    async def whole():
        async with cluster_of(count) as cluster:
            await scenario(cluster)

    asyncio.run(whole())
