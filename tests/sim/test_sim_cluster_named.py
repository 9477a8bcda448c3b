"""What went wrong elsewhere, or here: one test each, deterministic for a seed and small."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
from histories.checker import Verdict, check
from histories.complaint import INCONSISTENT, LOST, UNSEEN
from histories.history import Fault, History
from sim_admin import create_topics
from sim_cluster import Cluster
from sim_cluster_load import IDEMPOTENT, TRANSACTIONAL, ClusterLoad
from sim_cluster_reader import ClusterReader
from sim_machine import Machine
from sim_reader import FETCH_VERSION
from sim_routes import error_codes
from sim_world import World, simulate

from moldau.broker.metadata.features import ELIGIBLE
from moldau.broker.replication.partition import Partition
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.common.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.common.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

ONE = ("orders", 0)
Happens = Callable[[World, Cluster], Awaitable[None]]


def run(
    happens: Happens,
    seed: int,
    *,
    modes: Sequence[str] = (IDEMPOTENT, TRANSACTIONAL),
    topic: dict[str, str] | None = None,
    attempts: int = 8,
    may_lose: bool = False,
    **settings: str,
) -> tuple[Verdict, Cluster]:
    """Producers and a reader at one partition of three replicas, while something happens."""

    async def scenario(world: World) -> tuple[Verdict, Cluster]:
        cluster = Cluster(world, 3, **settings)
        cluster.invariants.may_lose = may_lose
        await cluster.start()
        admin = cluster.client("admin")
        told = {"min_insync_replicas": "2", **(topic or {})}
        await admin.spawn(create_topics(admin.anyone(), {"orders": 1}, 3, **told))
        history = History()
        loads = [
            ClusterLoad(world, mode, cluster.addresses, history, mode.rstrip("2"), [ONE], attempts)
            for mode in modes
        ]
        reader = ClusterReader(world, "reader", cluster.addresses, history, [ONE], committed=True)
        for one in (*loads, reader):
            one.start()
        await world.sleep_ms(200 * world.random.random())
        history.faults.append(Fault("named", world.loop.time(), bit=True))
        await happens(world, cluster)
        await cluster.heal()
        complaints = await cluster.drain(history, [ONE], loads, [] if may_lose else [reader])
        verdict = check(history)
        assert not complaints, "\n".join([*complaints, str(verdict)])
        return verdict, cluster

    return simulate(scenario, seed)[0]


def kept(happens: Happens, seed: int, **more: object) -> Cluster:
    """As `run`, and every promise is kept."""
    verdict, cluster = run(happens, seed, **more)  # type: ignore[arg-type]
    assert verdict.result == "pass", str(verdict)
    return cluster


def test_a_broker_whose_session_ends_follows_the_leaders_that_it_was_given_meanwhile(seed: int) -> None:
    async def happens(world: World, cluster: Cluster) -> None:
        cluster.ensemble.latency_seconds_max = 0.2
        store = cluster.ensemble.store_of(cluster.machine(cluster.leader(ONE)).process)
        assert store is not None
        store.expire()
        await world.sleep_ms(3000)

    kept(happens, seed)


def test_an_old_replica_does_not_lead_after_the_in_sync_set_has_shrunk_to_the_leader(seed: int) -> None:
    """520 of 987 acknowledged writes were lost so in another system (2013)."""

    async def happens(world: World, cluster: Cluster) -> None:
        leader = cluster.leader(ONE)
        others = [each for each in cluster.machines if each is not cluster.machine(leader)]
        for one in others:
            one.kill()
        await world.until(lambda: cluster.in_sync(ONE) == (leader,), 60)
        await world.sleep_ms(1000)  # with min.insync.replicas=1 it goes on alone
        cluster.machine(leader).kill()
        await world.sleep_ms(3000)
        for one in others:
            await one.start()
        await world.sleep_ms(5000)
        assert cluster.leader(ONE) in (-1, leader), "an old replica leads"

    kept(happens, seed, topic={"min_insync_replicas": "1"})


def test_an_eligible_replica_that_comes_back_without_its_tail_does_not_lead(seed: int) -> None:
    """It was eligible (KIP-966) for what it had. Nobody else is concerned by its registration: the leader and
    the in-sync set stay as they are. It must not lead once that leader dies.
    """

    async def happens(world: World, cluster: Cluster) -> None:
        leader = cluster.leader(ONE)
        first, second = (n for n in (1, 2, 3) if n != leader)
        for node in (first, second):
            cluster.machine(node).kill()

        def eligible() -> tuple[int, ...]:
            return cluster.ensemble.image.topics[ONE[0]].partitions[ONE[1]].elr

        await world.until(lambda: cluster.in_sync(ONE) == (leader,) and len(eligible()) == 2, 60)
        cut_off = cluster.replaced = cluster.machine(first)
        cluster.invariants.has_lost(cut_off)
        cut_off.power_cut()
        world.network.separate(cluster.machine(leader).name, cut_off.name)  # it cannot catch up
        await cut_off.start()
        await world.sleep_ms(3000)
        assert eligible() == (second,)
        cluster.machine(leader).kill()
        await world.sleep_ms(5000)
        assert cluster.leader(ONE) in (-1, leader), "a replica without its tail leads"

    kept(happens, seed)


def test_without_eligible_replicas_only_the_last_in_sync_one_leads(seed: int) -> None:
    """eligible.leader.replicas.version=0, as before KIP-966: it stays in the in-sync set while it is away."""

    async def happens(world: World, cluster: Cluster) -> None:
        admin = cluster.client("features")
        off = FeatureUpdateKey(feature=ELIGIBLE, max_version_level=0, upgrade_type=2)
        request = UpdateFeaturesRequest(feature_updates=[off])
        answer = await admin.spawn(admin.anyone().persist(request, 2))
        assert not answer.error_code, answer.error_message
        leader = cluster.leader(ONE)
        others = [each for each in cluster.machines if each is not cluster.machine(leader)]
        for one in others:
            one.kill()
        await world.until(lambda: cluster.in_sync(ONE) == (leader,), 60)
        cluster.machine(leader).kill()
        await world.sleep_ms(3000)
        for one in others:
            await one.start()
        await world.sleep_ms(5000)
        state = cluster.ensemble.image.topics[ONE[0]].partitions[ONE[1]]
        assert (state.leader, state.isr, state.elr, state.doubtful) == (-1, (leader,), (), ())
        await cluster.machine(leader).start()
        await world.until(lambda: cluster.leader(ONE) == leader, 60)

    kept(happens, seed)


def test_with_unclean_elections_it_does_and_the_checker_sees_what_is_lost() -> None:
    async def happens(world: World, cluster: Cluster) -> None:
        leader = cluster.leader(ONE)
        others = [each for each in cluster.machines if each is not cluster.machine(leader)]
        for one in others:
            one.kill()
        await world.until(lambda: cluster.in_sync(ONE) == (leader,), 60)
        await world.sleep_ms(2000)
        cluster.machine(leader).kill()
        await world.sleep_ms(3000)
        for one in others:
            await one.start()
        await world.until(lambda: cluster.leader(ONE) not in (-1, leader), 60)
        await world.sleep_ms(3000)

    topic = {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"}
    lost = 0
    for seed in range(4):
        verdict, _ = run(happens, seed, modes=(IDEMPOTENT,), topic=topic, attempts=30, may_lose=True)
        lost += verdict.result == "fail" and bool(verdict.kinds & {LOST, UNSEEN, INCONSISTENT})
    assert lost, "no seed lost anything: the checker, or the test, does not see it"


def test_producer_state_moves_with_the_leader(seed: int) -> None:
    """A retry that reaches the next leader is not appended again."""

    async def happens(world: World, cluster: Cluster) -> None:
        for _ in range(4):
            machine = cluster.machine(max(1, cluster.leader(ONE)))
            world.network.reset(0.7)  # answers are lost, and the retry goes to another leader
            machine.die_after(world.random.randint(1, 60))
            await world.sleep_ms(2500)
            machine.die_after(None)
            if not machine.runs:
                await machine.start()
            await world.sleep_ms(400)

    cluster = kept(happens, seed, modes=(IDEMPOTENT, IDEMPOTENT + "2"), attempts=30)
    assert cluster.invariants.leader_changes >= 2


def test_markers_reach_their_partitions_although_leaders_die(seed: int) -> None:
    async def happens(world: World, cluster: Cluster) -> None:
        for _ in range(4):
            machine = world.random.choice(cluster.machines)
            machine.die_after(world.random.randint(1, 100))
            await world.sleep_ms(2500)
            machine.die_after(None)
            if not machine.runs:
                await machine.start()

    kept(happens, seed, modes=(TRANSACTIONAL, TRANSACTIONAL + "2"), attempts=20)


def test_a_small_byte_budget_skips_nothing_between_segments(seed: int) -> None:
    async def happens(world: World, cluster: Cluster) -> None:
        follower = next(each for each in cluster.machines if each is not cluster.machine(cluster.leader(ONE)))
        follower.kill()
        await world.sleep_ms(2000)
        await follower.start()
        await world.sleep_ms(500)
        cluster.machine(cluster.leader(ONE)).kill()

    kept(
        happens,
        seed,
        topic={"internal_segment_bytes": "300"},
        replica_fetch_max_bytes="100",
        replica_fetch_response_max_bytes="100",
    )


def _flip(world: World, cluster: Cluster, machine: Machine, start: int = 0) -> None:
    """One bit of the partition's file on this machine, behind the first `start` bytes."""
    path = f"/data/{ONE[0]}-{ONE[1]}/{0:020}.log"
    size = machine.disk.file_size_bytes(path)
    cluster.invariants.damaged.add(machine.name)
    machine.disk.flip_bit(path, world.random.randrange(8 * start, 8 * size))


def test_a_bit_flipped_on_a_stopped_replica_spreads_to_no_other(seed: int) -> None:
    """Half of the data was lost so in other systems: a replica took the damage of another."""

    async def happens(world: World, cluster: Cluster) -> None:
        await world.sleep_ms(1500)
        machine = world.random.choice(cluster.machines)
        machine.kill()
        _flip(world, cluster, machine)
        await world.sleep_ms(world.random.choice((100, 4000)))
        await machine.start()
        await world.sleep_ms(3000)

    kept(happens, seed)


def test_a_bit_flipped_on_the_leader_is_not_copied_by_a_follower_that_was_away(seed: int) -> None:
    """The other in-sync replica has the record whole, and leads once the damaged one is stopped."""
    kept(_leader_is_damaged, seed, attempts=20)


@pytest.mark.parametrize("seed", [50002, 50012, 50024, 50038])
def test_nor_one_in_the_header_that_no_crc_covers(seed: int) -> None:
    """Offset, length, leader epoch and magic: consumers jumped over records, or saw them at wrong offsets."""
    kept(_leader_is_damaged, seed, attempts=20)


async def _leader_is_damaged(world: World, cluster: Cluster) -> None:
    leader = cluster.machine(cluster.leader(ONE))
    away = next(each for each in cluster.machines if each is not leader)
    path = f"/data/{ONE[0]}-{ONE[1]}/{0:020}.log"
    away.kill()
    known_bytes = away.disk.file_size_bytes(path)
    await world.until(lambda: leader.disk.file_size_bytes(path) > known_bytes + 200, 60)
    _flip(world, cluster, leader, known_bytes)
    await away.start()
    await world.sleep_ms(3000)
    leader.kill()
    await world.until(lambda: cluster.leader(ONE) not in (-1, int(leader.settings["node.id"])), 60)
    await world.sleep_ms(2000)


def test_a_power_cut_takes_nothing_that_was_acknowledged_with_group_durability(seed: int) -> None:
    """14 % of acknowledged writes were lost where the sync came after the answer. All three at once."""

    async def happens(world: World, cluster: Cluster) -> None:
        for machine in cluster.machines:
            machine.power_cut()
        await world.sleep_ms(1000)
        for started in [machine.begin_start() for machine in cluster.machines]:
            assert await started

    kept(happens, seed, moldau_durability="group")


def test_a_broker_that_knows_old_metadata_refuses_nothing_by_it(seed: int) -> None:
    """Seed 3 of the random clusters: a topic was deleted at one broker, and at another it still "existed"."""

    async def happens(world: World, cluster: Cluster) -> None:
        cluster.ensemble.latency_seconds_max = 1.0
        admin = cluster.client("late administrator")
        topic = CreatableTopic(name="brief", num_partitions=1, replication_factor=3)
        for _ in range(3):
            for request, version in (
                (CreateTopicsRequest(topics=[topic]), 5),
                (DeleteTopicsRequest(topic_names=["brief"], timeout_ms=10_000), 4),
            ):
                address = cluster.world.random.choice(cluster.addresses)
                assert error_codes(await admin.spawn(admin.ask(address, request, version))) == set()

    kept(happens, seed)


def test_one_isolated_broker_stops_nobody_for_long(seed: int) -> None:
    """88 % of partition failures isolate one node."""

    async def happens(world: World, cluster: Cluster) -> None:
        leader = cluster.leader(ONE)
        name = cluster.machine(leader).name
        for host in cluster.hosts:
            if host != name:
                world.network.separate(name, host)
        began = world.loop.time()
        await world.until(lambda: cluster.leader(ONE) != leader, 60)
        assert world.loop.time() - began < 6
        await world.sleep_ms(8000)

    kept(happens, seed)


async def _error_beyond(cluster: Cluster, machine: Machine, offset: int) -> int:
    """What a reader without a leader epoch is told at this offset."""
    wanted = FetchPartition(partition=ONE[1], fetch_offset=offset, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic=ONE[0], partitions=[wanted])]
    )
    late = cluster.client(f"late {cluster.world.random.random()}")
    answer = await late.spawn(late.ask(machine.address, request, FETCH_VERSION))
    return int(answer.responses[0].partitions[0].error_code)


def _partition(machine: Machine) -> Partition:
    assert machine.node is not None
    found = machine.node.replicas.partition(*ONE)
    assert found is not None
    return found


@pytest.mark.parametrize("how", ["stood still", "cut off"])
def test_a_deposed_leader_sends_no_reader_back_to_the_beginning(seed: int, how: str) -> None:
    """Seed 56 of the power cuts: one that has read at the next leader is told OFFSET_OUT_OF_RANGE."""

    async def happens(world: World, cluster: Cluster) -> None:
        old = cluster.machine(cluster.leader(ONE))
        if how == "stood still":
            old.pause()
        else:
            for host in cluster.hosts:
                if host != old.name:
                    world.network.separate(old.name, host)
        await world.until(lambda: cluster.machine(cluster.leader(ONE)) is not old, 60)
        leader = cluster.machine(cluster.leader(ONE))
        copy, ahead = _partition(old), _partition(leader)
        await world.until(lambda: ahead.high_watermark > copy.log.log_end_offset, 60)
        old.resume()
        assert copy.leads, "it knows already"
        offset = ahead.high_watermark
        told = [await _error_beyond(cluster, old, offset) for _ in range(3)]
        assert ErrorCode.OFFSET_OUT_OF_RANGE not in told

    kept(happens, seed, modes=(IDEMPOTENT, IDEMPOTENT + "2"), attempts=40)


def test_a_leader_tells_that_an_offset_lies_beyond_the_end(seed: int) -> None:
    async def happens(world: World, cluster: Cluster) -> None:
        await world.sleep_ms(3000)
        leader = cluster.machine(cluster.leader(ONE))
        assert await _error_beyond(cluster, leader, 1_000_000) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await world.sleep_ms(1000)
        assert await _error_beyond(cluster, leader, 1_000_000) == ErrorCode.OFFSET_OUT_OF_RANGE

    kept(happens, seed)
