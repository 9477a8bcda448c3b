"""Reassignments in clusters of whole brokers, under load and faults: nothing acknowledged is lost, clients
go on, and the target is reached."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories.checker import check
from histories.history import Fault, History
from sim_cluster import Cluster
from sim_cluster_load import IDEMPOTENT, PLAIN, TRANSACTIONAL, ClusterLoad
from sim_cluster_reader import ClusterReader
from sim_machine import DATA
from sim_world import World, simulate

from moldau.broker.metadata.image import PartitionState
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.common.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.common.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

PLACES = [("orders", 0), ("orders", 1)]


class Movers(Cluster):
    """Four brokers, the topic `orders` on the first ones, and requests about it."""

    async def create(self, *replicas: Sequence[int], **configs: str) -> None:
        rows = [
            CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()
        ]
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
            for index, nodes in enumerate(replicas)
        ]
        topic = CreatableTopic(
            name="orders", num_partitions=-1, replication_factor=-1, assignments=assignments, configs=rows
        )
        client = self.client("creates")
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        answer = await client.spawn(client.anyone().persist(request, 5))
        assert not answer.topics[0].error_code, answer.topics[0].error_message

    async def reassign(self, index: int, replicas: Sequence[int] | None) -> int:
        """Ask any broker, until one answers; the error code."""
        client = self.client(f"reassigns {self.world.loop.time()}")
        partition = ReassignablePartition(
            partition_index=index, replicas=None if replicas is None else list(replicas)
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="orders", partitions=[partition])]
        )
        while True:
            answer = await client.spawn(client.anyone().persist(request, 0))
            ((row,),) = [topic.partitions for topic in answer.responses]
            if row.error_code not in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                return int(row.error_code)
            await client.spawn(client.pause())

    async def throttle(self, rate: int) -> None:
        """Limit all of the topic's replicas, on all brokers."""
        sides = ("leader", "follower")
        rates = {f"{side}.replication.throttled.rate": str(rate) for side in sides}
        wanted = [(4, str(node), rates) for node in range(1, len(self.machines) + 1)]
        wanted.append((2, "orders", {f"{side}.replication.throttled.replicas": "*" for side in sides}))
        resources = [
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, value=value) for key, value in values.items()],
            )
            for kind, name, values in wanted
        ]
        client = self.client("throttles")
        request = IncrementalAlterConfigsRequest(resources=resources)
        answer = await client.spawn(client.anyone().persist(request, 0))
        assert not any(row.error_code for row in answer.responses), answer.responses

    def state(self, index: int) -> PartitionState:
        return self.ensemble.image.topics["orders"].partitions[index]

    def folders(self, index: int) -> list[int]:
        """The brokers that have a folder of the partition."""
        return [
            node
            for node, machine in enumerate(self.machines, 1)
            if f"orders-{index}" in machine.disk.list_directory(DATA)
        ]

    async def settled(self, index: int, replicas: Sequence[int]) -> None:
        await self.world.until(lambda: self.state(index).replicas == tuple(replicas))
        assert self.state(index).target == ()
        await self.world.until(lambda: self.folders(index) == sorted(replicas))


def moved_under_load(seed: int) -> str:
    async def scenario(world: World) -> None:
        draw = world.random
        cluster = Movers(world, 4, replicas=3, moldau_durability=draw.choice(["os", "group"]))
        await cluster.start()
        await cluster.create((1, 2), (2, 3), min_insync_replicas="2")
        if draw.random() < 0.3:
            await cluster.throttle(20_000)
        history = History()
        loads = [
            ClusterLoad(world, mode, cluster.addresses, history, mode, PLACES, 12)
            for mode in (IDEMPOTENT, PLAIN, TRANSACTIONAL)
        ]
        reader = ClusterReader(world, "reader", cluster.addresses, history, PLACES, committed=True)
        for one in (*loads, reader):
            one.start()
        wanted = {0: (1, 2), 1: (2, 3)}
        for _ in range(draw.randint(1, 4)):
            await world.sleep_ms(draw.random() * 400)
            index = draw.randrange(2)
            target = tuple(draw.sample((1, 2, 3, 4), draw.randint(2, 4)))
            if draw.random() < 0.2:
                before = cluster.state(index).original
                if not await cluster.reassign(index, None) and before:
                    wanted[index] = before
            elif not await cluster.reassign(index, target):
                wanted[index] = target
            if draw.random() < 0.5:
                state, image = cluster.state(index), cluster.ensemble.image
                node = draw.choice([image.controller_id, state.leader, *state.replicas])
                machine = cluster.machine(max(1, node))
                history.faults.append(Fault(machine.name, world.loop.time(), bit=True))
                if draw.random() < 0.3:
                    machine.pause()
                else:
                    machine.kill()
                await world.sleep_ms(draw.choice((50, 500, 5000)))
                await cluster.heal()
        await cluster.heal()
        complaints = await cluster.drain(history, PLACES, loads, [reader])
        verdict = check(history)
        assert not complaints, "\n".join(complaints)
        assert verdict.result in (("pass",) if history.faults else ("pass", "unknown")), str(verdict)
        for index, replicas in wanted.items():
            await cluster.settled(index, replicas)

    return simulate(scenario, seed)[1].digest()


@pytest.mark.seeds(15)
def test_partitions_move_under_load_while_brokers_die(seed: int) -> None:
    moved_under_load(seed)


def test_a_leader_that_is_not_in_the_target_hands_over_and_deletes_its_folder() -> None:
    async def scenario(world: World) -> None:
        cluster = Movers(world, 4)
        await cluster.start()
        await cluster.create((1, 2))
        assert await cluster.reassign(0, (3, 4)) == 0
        await cluster.settled(0, (3, 4))
        assert cluster.leader(("orders", 0)) in (3, 4)

    simulate(scenario, 1)


def test_a_dead_target_is_waited_for_and_may_be_cancelled() -> None:
    async def scenario(world: World) -> None:
        cluster = Movers(world, 4)
        await cluster.start()
        await cluster.create((1, 2), (1, 2))
        cluster.machine(4).kill()
        await world.until(lambda: cluster.ensemble.image.brokers[4].fenced)
        assert await cluster.reassign(0, (3, 4)) == 0
        assert await cluster.reassign(1, (3, 4)) == 0
        await world.until(lambda: 3 in cluster.state(0).isr and 3 in cluster.state(1).isr)
        await world.sleep_ms(5_000)
        assert cluster.state(0).replicas == (3, 4, 1, 2)
        assert await cluster.reassign(1, None) == 0
        assert await cluster.reassign(1, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        await cluster.settled(1, (1, 2))
        await cluster.heal()
        await cluster.settled(0, (3, 4))

    simulate(scenario, 1)


def test_records_are_deleted_on_all_live_replicas_before_the_answer() -> None:
    async def scenario(world: World) -> None:
        cluster = Movers(world, 3)
        for machine in cluster.machines:
            machine.after_callback = lambda: None  # the invariants do not know of deleted records
        await cluster.start()
        await cluster.create((1, 2, 3))
        history = History()
        load = ClusterLoad(world, "load", cluster.addresses, history, IDEMPOTENT, PLACES[:1], 5)
        load.start()
        await world.until(lambda: load.over)

        async def delete(name: str, offset: int) -> tuple[int, int]:
            client = cluster.client(name)
            asked = DeleteRecordsPartition(partition_index=0, offset=offset)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name="orders", partitions=[asked])], timeout_ms=20_000
            )
            leader = client.leader(("orders", 0))
            row = (await client.spawn(leader.persist(request, 2))).topics[0].partitions[0]
            return row.error_code, row.low_watermark

        def starts() -> list[int]:
            held = [machine.node.replicas.partition("orders", 0) for machine in cluster.machines]
            return [each.log.log_start_offset for each in held]

        assert await delete("first", 3) == (0, 3)
        assert starts() == [3, 3, 3]
        away = next(node for node in (1, 2, 3) if node != cluster.leader(("orders", 0)))
        cluster.machine(away).kill()
        assert await delete("second", 4) == (0, 4)
        await cluster.heal()
        await world.until(lambda: not cluster.behind() and starts() == [4, 4, 4])

    simulate(scenario, 1)


def test_a_throttled_reassignment_takes_as_long_as_it_must_and_ends() -> None:
    async def scenario(world: World) -> None:
        cluster = Movers(world, 3)
        await cluster.start()
        await cluster.create((1,))
        history = History()
        load = ClusterLoad(world, "load", cluster.addresses, history, IDEMPOTENT, PLACES[:1], 60)
        load.start()
        await world.until(lambda: load.over)
        node = cluster.machine(1).node
        size_bytes = node.replicas.partition("orders", 0).log.size_bytes
        seconds = 20
        await cluster.throttle(size_bytes // seconds)
        # One response holds all of it, unless it is cut; the second partition's worth shows the rate.
        began = world.loop.time()
        node.replicas.leader_quota.record(size_bytes)
        assert await cluster.reassign(0, (2,)) == 0
        await cluster.settled(0, (2,))
        took = world.loop.time() - began
        assert took > seconds / 4, "the rate was exceeded when it began"

    simulate(scenario, 1)
