"""Groups of both protocols, and workers that copy exactly once, while coordinators and leaders die, hang and
are cut off: nothing is read past, what was committed stays committed, and each record is copied once.
"""

from __future__ import annotations

from collections import Counter

import pytest
from sim_admin import committed_offsets, create_topics
from sim_cluster import Cluster
from sim_cluster_producer import ClusterProducer
from sim_cluster_reader import settled_everywhere
from sim_cluster_worker import ClusterConsumer, ClusterWorker, Everywhere
from sim_machine import Machine
from sim_reader import read
from sim_store import ENSEMBLE
from sim_world import World, simulate
from torture.judge_loop import judge_offsets, judge_output
from torture.reading import Place
from torture.worker import transformed

from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

SOURCE, TARGET = {"in": 3}, {"out": 2}
RECORDS = 60
GROUP = "copiers"
_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}


def three(world: World) -> Cluster:
    return Cluster(world, 3, **{name.replace(".", "_"): value for name, value in _GROUPS.items()})


async def fill(cluster: Cluster, first: int, count: int) -> list[bytes]:
    """Numbered records, spread over the partitions of the source."""
    producer = ClusterProducer(cluster.client(f"filler {first}"))

    async def run() -> list[bytes]:
        await producer.initialise()
        values = [b"%d" % number for number in range(first, first + count)]
        batches = [
            producer.batch(
                ("in", start % SOURCE["in"]), [(value, value) for value in values[start : start + 4]]
            )
            for start in range(0, count, 4)
        ]
        for batch in batches:
            # One after the other: a leader that does not know the producer takes any batch for its first.
            await producer.deliver([batch])
        return values

    return await producer.cluster.spawn(run())


async def harm(world: World, cluster: Cluster) -> str:
    """One broker, mostly a coordinator, dies, hangs or is cut off for a while; what happened."""
    draw = world.random
    places = [(GROUP_OFFSETS_TOPIC, 0), (TRANSACTION_STATE_TOPIC, 0), ("in", 0), ("out", 1)]
    known = [place for place in places if place[0] in cluster.ensemble.image.topics]
    leader = cluster.leader(draw.choice(known)) if known else -1
    machine: Machine = draw.choice(cluster.machines) if leader < 0 else cluster.machine(leader)
    how = draw.choice(("dies", "dies at a step", "hangs", "is alone", "hears nobody", "no ensemble"))
    others = [each.name for each in cluster.machines if each is not machine]
    if how == "dies":
        machine.kill()
    elif how == "dies at a step":
        machine.die_after(draw.randint(1, 300))
    elif how == "hangs":
        machine.pause()
    elif how == "is alone":
        for other in [*others, ENSEMBLE]:
            world.network.separate(machine.name, other)
    elif how == "hears nobody":
        for other in others:
            world.network.separate(other, machine.name, one_way=True)
    else:
        world.network.separate(machine.name, ENSEMBLE)
    await world.sleep_ms(draw.choice((300, 1500, 4000, 9000)))
    await cluster.heal()
    return f"{machine.name} {how}"


def copies(seed: int, protocol: str) -> str:
    async def scenario(world: World) -> None:
        cluster = three(world)
        await cluster.start()
        admin = cluster.client("admin")
        await admin.spawn(create_topics(admin.anyone(), SOURCE | TARGET, replicas=3, min_insync_replicas="2"))
        values = await fill(cluster, 0, RECORDS)
        workers = [
            ClusterWorker(
                world,
                f"w{one}",
                cluster.addresses,
                group_id=GROUP,
                protocol=protocol,
                source=SOURCE,
                target=TARGET,
            )
            for one in range(2)
        ]
        for one in workers:
            one.start()
        notes = []
        for _ in range(world.random.randint(1, 4)):
            await world.sleep_ms(world.random.random() * 1500)
            notes.append(await harm(world, cluster))
        judge = cluster.client("judge")
        client = Everywhere(judge)
        places = [(topic, index) for topic, count in (SOURCE | TARGET).items() for index in range(count)]
        in_places, out_places = places[: SOURCE["in"]], places[SOURCE["in"] :]
        ends, complaints = await judge.spawn(settled_everywhere_of(cluster, in_places))
        deadline = world.loop.time() + 300
        while left := judge_offsets(await client.spawn(committed_offsets(client, GROUP)), ends):
            assert world.loop.time() < deadline, (left, notes)
            await world.sleep_ms(100)
        for one in workers:
            one.kill()
        out_ends, hanging = await judge.spawn(settled_everywhere(judge, out_places, cluster.addresses, 60))
        seen, wrong = await client.spawn(read(client, out_ends))
        complaints += hanging + wrong + judge_output(values, transformed, seen)
        await world.until(lambda: not cluster.behind())
        cluster.machine(cluster.leader((GROUP_OFFSETS_TOPIC, 0))).kill()
        complaints += judge_offsets(await client.spawn(committed_offsets(client, GROUP)), ends)
        assert not complaints, "\n".join([*complaints[:20], *notes])

    return simulate(scenario, seed)[1].digest()


async def settled_everywhere_of(cluster: Cluster, places: list[tuple[str, int]]) -> tuple[dict, list[str]]:  # type: ignore[type-arg]
    """The ends of partitions that nobody writes to in transactions."""
    ends = {}
    for place in places:
        leader = cluster.machine(cluster.leader(place)).node
        assert leader is not None
        partition = leader.replicas.partition(*place)
        assert partition is not None
        ends[place] = partition.high_watermark
    return ends, []


@pytest.mark.seeds(2)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_record_is_copied_once_whatever_moves(protocol: str, seed: int) -> None:
    copies(seed, protocol)


def members(seed: int, protocol: str) -> str:
    async def scenario(world: World) -> None:
        cluster = three(world)
        await cluster.start()
        admin = cluster.client("admin")
        await admin.spawn(create_topics(admin.anyone(), SOURCE, replicas=3, min_insync_replicas="2"))
        group = [
            ClusterConsumer(
                world, f"m{one}", cluster.addresses, group_id=GROUP, protocol=protocol, topics=SOURCE
            )
            for one in range(2)
        ]
        for one in group:
            one.start()

        def spread() -> bool:
            """Every partition has one reader."""
            held = Counter(place for one in group for place in one.member.assignment)
            return len(held) == SOURCE["in"] and set(held.values()) == {1}

        def committed() -> dict[Place, int]:
            """The furthest that was acknowledged to any member."""
            places = sorted(place for one in group for place in one.committed)
            return {place: max(one.committed.get(place, 0) for one in group) for place in places}

        def generations() -> list[int]:
            return [one.member.generation for one in group]

        def values() -> set[int]:
            return {int(value) for one in group for _, _, value in one.read}

        count, notes = 0, []
        for _ in range(world.random.randint(1, 3)):
            await world.until(spread, 120)
            filling = world.loop.create_task(fill(cluster, count, 24))
            count += 24
            notes.append(await harm(world, cluster))
            await filling
            await world.until(lambda count=count: values() == set(range(count)), 120)
            # One place to coordinate is left, and the members find it: no rebalance without end.
            deadline, before = world.loop.time() + 60, None
            while (found := generations()) != before or not spread():
                assert world.loop.time() < deadline, ("rebalances without end", found, notes)
                before = found
                await world.sleep_ms(5000)
        ends = {("in", one): count // SOURCE["in"] for one in range(SOURCE["in"])}
        await world.until(lambda: committed() == ends, 60)
        await world.until(lambda: not cluster.behind())
        cluster.machine(cluster.leader((GROUP_OFFSETS_TOPIC, 0))).kill()
        judge = Everywhere(cluster.client("judge"))
        assert await judge.spawn(committed_offsets(judge, GROUP)) == ends
        complaints = [line for one in group for line in one.complaints]
        assert not complaints, (complaints, notes)

    return simulate(scenario, seed)[1].digest()


@pytest.mark.seeds(2)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_whose_coordinator_moves_settles_and_loses_no_commit(protocol: str, seed: int) -> None:
    members(seed, protocol)
