"""Replication between whole brokers, one situation a test: followers copy, lead after a death, truncate when
they come back, go on after their leader has deleted what they lack, and never take a damaged batch.

Random faults on clusters are elsewhere (test_sim_cluster_clients.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from sim_cluster import Cluster
from sim_cluster_producer import ClusterProducer
from sim_machine import DATA
from sim_world import World, simulate

from moldau.broker.replication.partition import Partition
from moldau.broker.stages.replication import Replication
from moldau.common.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

Story = Callable[["Trio"], Awaitable[None]]


class Trio(Cluster):
    """Three brokers, and what the tests ask of them."""

    def replica(self, node_id: int, topic: str = "t", index: int = 0) -> Partition | None:
        node = self.machine(node_id).node
        if not self.machine(node_id).runs or node is None or not hasattr(node, "replicas"):
            return None
        return node.replicas.partition(topic, index)

    def held(self, node_id: int, topic: str = "t", index: int = 0) -> Partition:
        replica = self.replica(node_id, topic, index)
        assert replica is not None
        return replica

    def ends(self, topic: str = "t", index: int = 0) -> list[tuple[int, int]]:
        """(log end offset, high watermark) of each running replica, by node id."""
        found = [self.replica(each, topic, index) for each in (1, 2, 3)]
        return [(each.log.log_end_offset, each.high_watermark) for each in found if each is not None]

    def do_without_invariants(self) -> None:
        for machine in self.machines:
            machine.after_callback = lambda: None

    def must_be_alike(self, topic: str = "t", index: int = 0) -> None:
        """All replicas hold the same bytes."""
        logs = [self.held(node, topic, index).log for node in (1, 2, 3)]
        held = {
            bytes(log.reader.read(log.log_start_offset, 1 << 20, end_offset=log.log_end_offset))
            for log in logs
        }
        assert len(held) == 1

    def followers(self, topic: str = "t") -> list[int]:
        return [node for node in (1, 2, 3) if node != self.leader((topic, 0))]

    async def create(self, topic: str = "t", partitions: int = 1, **configs: str) -> None:
        rows = [
            CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()
        ]
        asked = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=3, configs=rows)
        client = self.client(f"creates {topic} {self.world.loop.time()}")
        request = CreateTopicsRequest(topics=[asked], timeout_ms=30_000)
        answer = await client.spawn(client.anyone().persist(request, 5))
        assert not answer.topics[0].error_code, answer.topics[0].error_message
        running = [node for node in (1, 2, 3) if self.machine(node).runs]
        await self.world.until(lambda: all(self.replica(node, topic) for node in running))

    async def delete(self, topic: str = "t") -> None:
        client = self.client(f"deletes {topic}")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=30_000)
        answer = await client.spawn(client.anyone().persist(request, 6))
        assert not answer.responses[0].error_code

    def producer(self, name: str, **told: object) -> ClusterProducer:
        return ClusterProducer(self.client(name), **told)

    async def produce(self, producer: ClusterProducer, count: int, topic: str = "t") -> list[float]:
        """So many batches of one record, one after the other; how long each took in seconds."""

        async def run() -> list[float]:
            took = []
            for number in range(count):
                begun = self.world.loop.time()
                await producer.deliver([producer.batch((topic, 0), [(b"key", b"%d" % number)])])
                took.append(self.world.loop.time() - begun)
            return took

        return await producer.cluster.spawn(run())

    async def begin(self, name: str, **told: object) -> ClusterProducer:
        producer = self.producer(name, **told)
        await producer.cluster.spawn(producer.initialise())
        return producer

    def cut_off(self, node_id: int) -> None:
        """From the other brokers; clients and the ensemble still reach it."""
        for other in self.machines:
            if other is not self.machine(node_id):
                self.world.network.separate(self.machine(node_id).name, other.name)

    async def whole(self) -> None:
        """Everything is in sync and alike."""
        await self.heal()
        await self.world.until(lambda: not self.behind())
        for topic, state in self.ensemble.image.topics.items():
            for index in range(len(state.partitions)):
                await self.world.until(lambda t=topic, i=index: len(set(self.ends(t, i))) == 1)


def tell(story: Story, **settings: str) -> None:
    async def scenario(world: World) -> None:
        trio = Trio(world, 3, **settings)
        await trio.start()
        await story(trio)

    simulate(scenario, 1)


@pytest.mark.parametrize("durability", ["os", "group"])
def test_followers_copy_what_the_leader_has(durability: str) -> None:
    async def story(trio: Trio) -> None:
        await trio.create()
        took = await trio.produce(await trio.begin("p"), 20)
        await trio.world.until(lambda: trio.ends() == [(20, 20)] * 3)
        assert max(took[1:]) < 0.1, "bounded by replica.fetch.wait.max.ms?"
        trio.must_be_alike()

    tell(story, moldau_durability=durability)


def test_a_new_topic_does_not_wait_for_a_fetch_that_waits_for_records() -> None:
    async def story(trio: Trio) -> None:
        await trio.create("idle", partitions=3)
        await trio.world.sleep_ms(1000)
        for number in range(10):
            await trio.create(f"new{number}")
            producer = await trio.begin(f"p{number}")
            took = await trio.produce(producer, 1, f"new{number}")
            assert took[0] < 0.15, "waited for replica.fetch.wait.max.ms"
        await trio.world.sleep_ms(2000)
        for node in (1, 2, 3):
            fetcher = trio.machine(node).node.reached(Replication).fetcher.made
            assert all(
                fetch._early is None or not list(fetch._early.all()) for fetch in fetcher._fetches.values()
            )
        await trio.whole()

    tell(story)


def test_an_in_sync_follower_leads_after_a_death_and_knows_the_producers() -> None:
    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="2")
        producer = await trio.begin("p")
        await trio.produce(producer, 5)
        repeated = producer.batch(("t", 0), [(b"key", b"once")])
        await producer.cluster.spawn(producer.deliver([repeated]))
        first_offset, repeated.base_offset = repeated.base_offset, None
        old = trio.leader(("t", 0))
        trio.machine(old).kill()
        await trio.world.until(lambda: trio.leader(("t", 0)) not in (-1, old))
        await producer.cluster.spawn(producer.deliver([repeated]))
        assert repeated.base_offset == first_offset, "the new leader took it again"
        await trio.produce(producer, 5)
        await trio.whole()
        assert trio.ends() == [(11, 11)] * 3

    tell(story)


def test_a_deposed_leader_truncates_what_nobody_else_has() -> None:
    async def story(trio: Trio) -> None:
        await trio.create()
        await trio.produce(await trio.begin("p"), 5)
        await trio.world.until(lambda: trio.ends() == [(5, 5)] * 3)
        old = trio.leader(("t", 0))
        trio.cut_off(old)
        alone = await trio.begin("alone", acks=1, idempotent=False)
        await trio.produce(alone, 3)
        assert trio.held(old).log.log_end_offset == 8
        trio.machine(old).kill()  # (what it has sent arrives when the network is whole again)
        await trio.world.until(lambda: trio.leader(("t", 0)) not in (-1, old))
        await trio.produce(await trio.begin("p2"), 2)
        await trio.whole()
        assert trio.ends() == [(7, 7)] * 3
        trio.must_be_alike()

    tell(story)


def test_a_follower_that_is_cut_off_leaves_the_in_sync_set_and_returns() -> None:
    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="2")
        producer = await trio.begin("p")
        await trio.produce(producer, 2)
        away = trio.followers()[0]
        trio.cut_off(away)
        took = await trio.produce(producer, 2)
        assert max(took) > 2, "acknowledged without an in-sync replica"
        assert away not in trio.in_sync(("t", 0))
        await trio.whole()
        assert trio.ends() == [(4, 4)] * 3

    tell(story)


def test_too_few_in_sync_replicas_refuse_acks_all() -> None:
    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="2")
        producer = await trio.begin("p")
        await trio.produce(producer, 2)
        for node in trio.followers():
            trio.machine(node).kill()
        late = producer.cluster.spawn(producer.deliver([producer.batch(("t", 0), [(b"key", b"late")])]))
        await trio.world.sleep_ms(10_000)
        assert not late.done()
        assert trio.held(trio.leader(("t", 0))).high_watermark == 2
        await trio.whole()
        await late
        await trio.world.until(lambda: {hw for _, hw in trio.ends()} == {3})

    tell(story)


def test_a_replica_that_was_away_for_long_begins_where_its_leader_does() -> None:
    async def story(trio: Trio) -> None:
        trio.do_without_invariants()  # they do not know of deleted records
        await trio.create()
        producer = await trio.begin("p")
        await trio.produce(producer, 3)
        away = trio.followers()[0]
        trio.machine(away).kill()
        await trio.world.until(lambda: away not in trio.in_sync(("t", 0)))
        await trio.produce(producer, 10)
        leader = trio.held(trio.leader(("t", 0)))
        leader.delete_records(9)
        await trio.whole()
        back = trio.held(away)
        assert (back.log.log_start_offset, back.log.log_end_offset) == (9, 13)
        await trio.produce(producer, 1)
        await trio.world.until(lambda: back.high_watermark == 14)

    tell(story)


def test_a_topic_deleted_while_a_replica_is_away_is_set_aside() -> None:
    async def story(trio: Trio) -> None:
        await trio.create()
        await trio.produce(await trio.begin("p"), 3)
        trio.machine(3).kill()
        await trio.delete()
        await trio.whole()
        assert trio.replica(3) is None
        names = trio.machine(3).disk.list_directory(DATA)
        assert "t-0" not in names
        assert any("-stray" in name for name in names), names

    tell(story)


def test_a_topic_made_anew_while_a_replica_is_away_does_not_get_the_old_records() -> None:
    async def story(trio: Trio) -> None:
        trio.do_without_invariants()  # they tell topics by name
        await trio.create()
        await trio.produce(await trio.begin("p"), 7)
        trio.machine(3).kill()
        await trio.world.until(lambda: 3 not in trio.in_sync(("t", 0)))
        await trio.delete()
        trio.machine(3).begin_start()
        await trio.create()
        await trio.produce(await trio.begin("p2"), 2)
        await trio.whole()
        assert trio.ends() == [(2, 2)] * 3
        trio.must_be_alike()

    tell(story)


def test_many_partitions_follow_over_one_connection_a_leader() -> None:
    async def story(trio: Trio) -> None:
        await trio.create(partitions=300)
        await trio.world.until(lambda: all(trio.ends("t", index) == [(0, 0)] * 3 for index in (0, 150, 299)))
        producer = await trio.begin("p")

        async def run() -> None:
            await producer.deliver([producer.batch(("t", index), [(b"k", b"v")]) for index in range(300)])

        await producer.cluster.spawn(run())
        for index in range(300):
            assert min(end for end, _ in trio.ends("t", index)) == 1
        old = trio.leader(("t", 0))
        trio.machine(old).kill()
        await trio.world.until(
            lambda: all(
                old not in (each.leader, *each.isr) for each in trio.ensemble.image.topics["t"].partitions
            )
        )
        await trio.whole()

    tell(story)


def flip(trio: Trio, node_id: int, position: int) -> None:
    """One bit of a replica's log file."""
    files = trio.machine(node_id).disk
    fd = files.open(f"{DATA}/t-0/00000000000000000000.log")
    byte = files.pread(fd, 1, position)[0]
    files.pwrite(fd, bytes([byte ^ 4]), position)
    files.close(fd)


def test_a_leaders_damaged_batch_is_never_copied_and_stops_no_other_partition() -> None:
    async def story(trio: Trio) -> None:
        trio.do_without_invariants()  # they read the damaged batch
        await trio.create(partitions=6)
        producer = await trio.begin("p")
        await trio.produce(producer, 3)
        leader = trio.leader(("t", 0))
        away = trio.followers()[0]
        trio.machine(away).kill()
        await trio.world.until(lambda: away not in trio.in_sync(("t", 0)))
        await trio.produce(producer, 3)
        size_bytes = trio.held(leader).log.size_bytes
        flip(trio, leader, size_bytes // 6 * 4 + 70)
        await trio.heal()
        others = [index for index in range(1, 6) if trio.leader(("t", index)) == leader]
        await trio.world.until(lambda: all(trio.in_sync(("t", index)).count(away) for index in others))
        await trio.world.sleep_ms(3000)
        assert trio.held(away).log.log_end_offset == 3, "what came with the damaged batch was copied"
        assert away not in trio.in_sync(("t", 0))
        # Another replica with an undamaged copy leads: the one that lacked the batch gets it there.
        trio.machine(leader).kill()
        await trio.world.until(lambda: away in trio.in_sync(("t", 0)))
        assert trio.held(away).log.log_end_offset == 6

    tell(story)


def test_a_replica_damaged_while_it_was_stopped_in_order_is_not_in_sync_until_it_is_whole() -> None:
    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="2")
        producer = await trio.begin("p")
        await trio.produce(producer, 6)
        await trio.world.until(lambda: trio.ends() == [(6, 6)] * 3)
        stopped = trio.followers()[0]
        await trio.machine(stopped).stop()
        path = f"{DATA}/t-0/00000000000000000000.log"
        files = trio.machine(stopped).disk
        fd = files.open(path)
        files.truncate(fd, files.size_bytes(fd) // 2)
        files.close(fd)
        await trio.whole()
        assert trio.ends() == [(6, 6)] * 3
        trio.must_be_alike()

    tell(story)
