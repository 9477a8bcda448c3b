"""What went wrong elsewhere, or here: one test each, deterministic for a seed and small."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from histories.checker import Verdict, check
from histories.history import Fault, History
from sim_admin import create_topics
from sim_cluster import Cluster
from sim_cluster_load import IDEMPOTENT, TRANSACTIONAL, ClusterLoad
from sim_cluster_reader import ClusterReader
from sim_world import World, simulate

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
            ClusterLoad(world, mode, cluster.addresses, history, mode, [ONE], attempts) for mode in modes
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
