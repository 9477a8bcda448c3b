"""A cluster of three mirrors a broker: links break, brokers die on both sides, the source loses what was not
on its disk. In the end every replica holds the source's bytes; brokers die during the failover too, and then
clients may write.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sim_client import Disconnected
from sim_cluster_producer import ClusterProducer
from sim_producer import Fatal
from sim_routes import ClusterClient
from sim_world import World, simulate
from test_sim_replication import Trio

from moldau.broker.metadata.mirrors import MirrorState
from moldau.common.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.common.protocol.own.alter_mirrors import AlterMirrorsRequest, MirrorSettingData
from moldau.common.records.batch import iter_batches

PARTITIONS = 2
ROUNDS = 12


class Mirrored:
    """The source, the target, and the link between them."""

    def __init__(self, world: World, durability: str) -> None:
        self.world = world
        self.source = world.machine(
            "source",
            node_id="7",
            moldau_durability=durability,
            log_flush_interval_messages="40" if durability == "os" else str(2**63 - 1),
            log_cleaner_enable="false",
            log_retention_ms="-1",
            offsets_topic_num_partitions="1",
        )
        self.trio = Trio(world, 3)
        self.client = ClusterClient(world, "writer", [self.source.address])
        self.source_loses = durability == "os"
        self.stopped = False
        self.written = 0

    async def start(self) -> None:
        await self.source.start()
        await self.trio.start()
        topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        await self.client.spawn(self.client.anyone().persist(request, 5))

    async def alter(self, action: str, **settings: str) -> None:
        """Ask until it is done: who answers may die."""
        own = [MirrorSettingData(name=key.replace("_", "."), value=value) for key, value in settings.items()]
        client = self.trio.client(f"{action} {self.world.loop.time()}")
        request = AlterMirrorsRequest(action=action, link="l", settings=own, topics=None)

        async def ask() -> bool:
            try:
                answer = await client.anyone().persist(request, 0)
            except Disconnected:
                return False
            return not answer.error_code and all(not each.error_code for each in answer.topics)

        while not await client.spawn(ask()):
            await self.world.sleep_ms(200)

    async def write(self) -> None:
        """Records with acks=all until stopped; a batch whose answer is lost is sent again."""
        producer = ClusterProducer(self.client)
        await producer.initialise()
        while not self.stopped:
            batches = [
                producer.batch(("t", index), [(b"key", b"%d" % (self.written + index))])
                for index in range(PARTITIONS)
            ]
            try:
                await producer.deliver(batches)
            except Fatal:  # the source lost what this producer had written before
                producer = ClusterProducer(self.client)
                await producer.initialise()
            self.written += PARTITIONS
            await asyncio.sleep(0.02)

    def faults(self) -> None:
        """One fault, or its end."""
        world, random = self.world, self.world.random
        kind = random.choice(["kill", "source", "power", "apart", "join", "wait"])
        node = random.choice(self.trio.machines)
        if kind == "kill" and all(each.runs for each in self.trio.machines):
            node.kill()
        elif kind == "source" and self.source.runs:
            self.source.kill()
        elif kind == "power" and self.source.runs:
            self.source.power_cut()
        elif kind == "apart":
            world.network.separate("source", node.name)
        elif kind == "join":
            world.network.join_all()

    async def revive(self) -> None:
        for machine in [self.source, *self.trio.machines]:
            if not machine.runs:
                assert await machine.begin_start()

    def ends(self, index: int) -> set[int]:
        held = self.source.node.replicas.partition("t", index)
        return {held.log.log_end_offset, *(end for end, _ in self.trio.ends("t", index))}

    def must_be_alike(self, index: int) -> None:
        """All replicas hold the same bytes, and the source's; or more than a source that has lost records."""
        copies = {_bytes(self.trio.held(node, "t", index)) for node in (1, 2, 3)}
        (copy,) = copies
        there = _bytes(self.source.node.replicas.partition("t", index))
        assert copy == there or (self.source_loses and _records(there) <= _records(copy))

    def states(self) -> set[MirrorState]:
        return {each.state for each in self.trio.ensemble.image.mirrors.values()}


def _bytes(partition: Any) -> bytes:
    log = partition.log
    return bytes(log.reader.read(0, 1 << 24, end_offset=log.log_end_offset))


def _records(batches: bytes) -> set[tuple[int, bytes | None]]:
    return {(record.offset, record.value) for batch in iter_batches(batches) for record in batch.records()}


@pytest.mark.parametrize("durability", ["group", "os"])
@pytest.mark.seeds(2)
def test_every_replica_ends_as_the_source_is(seed: int, durability: str) -> None:
    async def scenario(world: World) -> None:
        both = Mirrored(world, durability)
        if durability == "os":
            both.trio.invariants.may_lose = True  # a source that lost records takes them from the copies too
        await both.start()
        servers = f"{both.source.address[0]}:{both.source.address[1]}"
        await both.alter("create", bootstrap_servers=servers, topics="t", replication_factor="3")
        writing = both.client.spawn(both.write())
        await world.until(lambda: both.written > 200)  # some of it is on the disk
        for _ in range(ROUNDS):
            await world.sleep_ms(world.random.randrange(100, 1500))
            both.faults()
            await world.sleep_ms(world.random.randrange(100, 1500))
            await both.revive()
        await both.trio.heal()
        await both.revive()
        await world.sleep_ms(2000)
        both.stopped = True
        await writing
        assert both.written > 100
        await world.until(lambda: not both.trio.behind())
        for index in range(PARTITIONS):
            await world.until(lambda index=index: len(both.ends(index)) == 1)
            both.must_be_alike(index)
        await both.alter("failover")
        for _ in range(3):
            both.faults()
            await world.sleep_ms(world.random.randrange(10, 800))
            await both.revive()
        await both.trio.heal()
        await world.until(lambda: both.states() == {MirrorState.FAILED_OVER})
        await both.trio.produce(await both.trio.begin("p"), 3)
        await world.until(lambda: len(set(both.trio.ends())) == 1)

    simulate(scenario, seed)
