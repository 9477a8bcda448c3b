"""Replication between whole brokers: followers copy, lead after a death, and truncate when they come back.

Deterministic and small; random faults on larger clusters are elsewhere.
"""

from __future__ import annotations

import pytest
from sim_client import SimClient
from sim_machine import Machine
from sim_producer import SimProducer
from sim_store import SimEnsemble
from sim_world import World, simulate

from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.replication.partition import Partition


class Trio:
    """Brokers that share a metadata store, and a client of each."""

    def __init__(self, world: World, count: int = 3, **settings: str) -> None:
        self.world = world
        self.ensemble = SimEnsemble(world.loop, world.network, world.draw("ensemble"))
        self.machines: list[Machine] = []
        for number in range(count):
            machine = world.machine("abcde"[number], **settings)
            machine.store_for = self.ensemble.access
            self.machines.append(machine)
        self.clients = [SimClient(world, f"client-{each.name}", each.address) for each in self.machines]

    async def start(self) -> None:
        for machine in self.machines:
            await machine.start()

    def machine(self, node_id: int) -> Machine:
        return next(each for each in self.machines if ord(each.name) == node_id)

    def client(self, node_id: int) -> SimClient:
        return next(each for each in self.clients if each._address[0] == chr(node_id))

    async def create(self, topic: str, partitions: int = 1, replicas: int = 3, **configs: str) -> None:
        rows = [
            CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()
        ]
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic, num_partitions=partitions, replication_factor=replicas, configs=rows
                )
            ],
            timeout_ms=30_000,
        )
        client = next(each for each in self.clients if self.machine(ord(each._address[0])).runs)
        answer = await client.persist(request, 5)
        assert not answer.topics[0].error_code, answer.topics[0].error_message
        await self.world.until(lambda: all(self.replica(each, topic) for each in self.running()))

    def running(self) -> list[Machine]:
        return [each for each in self.machines if each.runs and each.node is not None]

    def replica(self, machine: Machine, topic: str, index: int = 0) -> Partition | None:
        node = machine.node
        return (
            None if node is None or not hasattr(node, "replicas") else node.replicas.partition(topic, index)
        )

    def leader_of(self, topic: str, index: int = 0) -> int:
        for machine in self.running():
            replica = self.replica(machine, topic, index)
            if replica is not None and replica.leads:
                return ord(machine.name)
        return -1

    def ends(self, topic: str, index: int = 0) -> list[tuple[int, int]]:
        """(log end offset, high watermark) of each running replica."""
        found = [self.replica(each, topic, index) for each in self.running()]
        return [(each.log.log_end_offset, each.high_watermark) for each in found if each is not None]


@pytest.mark.parametrize("durability", ["os", "group"])
def test_followers_copy_what_the_leader_has(durability: str) -> None:
    async def scenario(world: World) -> list[float]:
        trio = Trio(world, moldau_durability=durability)
        await trio.start()
        await trio.create("t", partitions=2)
        client = trio.client(trio.leader_of("t"))
        producer = SimProducer(client)
        took = []

        async def produce() -> None:
            await producer.initialise()
            for number in range(20):
                begun = world.loop.time()
                await producer.deliver([producer.batch(("t", 0), [(b"k", b"%d" % number)])])
                took.append(world.loop.time() - begun)

        await client.spawn(produce())
        await world.until(lambda: trio.ends("t") == [(20, 20)] * 3)
        return took

    took, _ = simulate(scenario, 1)
    assert max(took[1:]) < 0.3, "bounded by replica.fetch.wait.max.ms"
