"""The clients, the store and the invariants of simulated clusters, on topics without replication: while a
broker is paused or away, its partitions are, and nothing acknowledged is lost.
"""

from __future__ import annotations

import pytest
from histories.checker import check
from histories.history import Fault, History
from sim_admin import create_topics
from sim_cluster import Cluster
from sim_cluster_load import IDEMPOTENT, LEADER, PLAIN, ClusterLoad
from sim_cluster_reader import ClusterReader
from sim_world import World, simulate

PLACES = [("orders", one) for one in range(3)]


def unreplicated(seed: int) -> str:
    async def scenario(world: World) -> None:
        cluster = Cluster(world, 3, replicas=1)
        await cluster.start()
        admin = cluster.client("admin")
        await admin.spawn(create_topics(admin.anyone(), {"orders": 3}))
        history = History()
        loads = [
            ClusterLoad(world, mode, cluster.addresses, history, mode, PLACES, 6)
            for mode in (IDEMPOTENT, PLAIN, LEADER)
        ]
        reader = ClusterReader(world, "reader", cluster.addresses, history, PLACES, committed=True)
        for one in (*loads, reader):
            one.start()
        await world.sleep_ms(world.random.random() * 500)
        machine = world.random.choice(cluster.machines)
        history.faults.append(Fault(machine.name, world.loop.time(), bit=True))
        if world.random.random() < 0.5:
            machine.pause()
        else:
            machine.kill()
        await world.sleep_ms(world.random.choice((100, 5000)))
        await cluster.heal()
        complaints = await cluster.drain(history, PLACES, loads, [reader])
        verdict = check(history)
        assert not complaints, "\n".join(complaints)
        assert verdict.result == "pass", str(verdict)

    return simulate(scenario, seed)[1].digest()


@pytest.mark.seeds(10)
def test_brokers_without_replication_lose_nothing_that_was_acknowledged(seed: int) -> None:
    unreplicated(seed)


def test_a_seed_decides_what_a_cluster_does() -> None:
    assert unreplicated(7) == unreplicated(7)
