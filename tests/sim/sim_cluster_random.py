"""Three brokers, random clients, random faults, from one seed."""

from __future__ import annotations

from histories.checker import check
from histories.history import History
from sim_admin import create_topics
from sim_cluster import Cluster
from sim_cluster_faults import ALL, Misfortune, power_cut, torment_cluster
from sim_cluster_load import IDEMPOTENT, LEADER, PLAIN, TRANSACTIONAL, ClusterLoad
from sim_cluster_reader import ClusterReader
from sim_world import World, simulate

KINDS = (IDEMPOTENT, IDEMPOTENT, TRANSACTIONAL, TRANSACTIONAL, PLAIN, LEADER)
PLACES = [("orders", 0), ("orders", 1)]


def replicated(seed: int, kinds: tuple[Misfortune, ...] = ALL, *, attempts: int = 5) -> str:
    """Torment a cluster with these faults, and judge what its clients saw; the digest of what happened."""

    async def scenario(world: World) -> None:
        draw = world.random
        power = power_cut in kinds
        cluster = Cluster(
            world, 3, moldau_durability="group" if power else draw.choice(("os", "os", "group"))
        )
        for machine in cluster.machines:
            machine.skew_ms = draw.choice((0, 0, 0, 3_600_000, -3_600_000))
        await cluster.start()
        admin = cluster.client("admin")
        settings = {
            "min_insync_replicas": draw.choice(("1", "2", "2")),
            "internal_segment_bytes": draw.choice(("1000", "1000000")),
        }
        await admin.spawn(create_topics(admin.anyone(), {"orders": len(PLACES)}, 3, **settings))
        history = History()
        modes = draw.sample(KINDS, 3)
        loads = [
            ClusterLoad(world, f"{mode}{number}", cluster.addresses, history, mode, PLACES, attempts)
            for number, mode in enumerate(modes)
        ]
        committed = draw.random() < 0.7
        reader = ClusterReader(world, "reader", cluster.addresses, history, PLACES, committed=committed)
        for one in (*loads, reader):
            one.start()
        await torment_cluster(cluster, history, lambda: all(one.over for one in loads), kinds)
        await cluster.heal()
        complaints = await cluster.drain(history, PLACES, loads, [reader])
        verdict = check(history)
        notes = [f"{one.name}: {note}" for one in loads for note in one.notes]
        faults = [f"{one.began_s:.3f} {one.name}" for one in history.faults]
        text = "\n".join([*complaints[:20], str(verdict), *faults, *notes[-20:]])
        assert not complaints, text
        assert verdict.result != "fail", text

    return simulate(scenario, seed)[1].digest()
