"""Some brokers, random clients, an administrator, random faults, from one seed."""

from __future__ import annotations

import random

from histories.checker import check
from histories.history import History
from sim_admin import create_topics
from sim_cluster import RACKS, Cluster
from sim_cluster_faults import ALL, DISKS, Misfortune, power_cut, torment_cluster
from sim_cluster_group import Group
from sim_cluster_late import LATE
from sim_cluster_load import IDEMPOTENT, LEADER, PLAIN, RESENDING, TRANSACTIONAL, ClusterLoad
from sim_cluster_onlooker import CommittedOffsets, Onlooker
from sim_cluster_reader import ClusterReader
from sim_cluster_topics import CHANGES, Scene
from sim_world import World, simulate

KINDS = (IDEMPOTENT, IDEMPOTENT, TRANSACTIONAL, TRANSACTIONAL, PLAIN, LEADER, RESENDING, RESENDING)
TRANSACTION_TIMEOUTS_MS = (60_000, 60_000, 2000)
CHANGES_SECONDS_MAX = 300.0
FAULTS_BY_KIND: dict[str, tuple[Misfortune, ...]] = {
    "processes": ALL + LATE,
    "power": (power_cut, power_cut, *ALL, *LATE),
    "disks": DISKS * 2 + ALL + LATE,
}
SESSIONS_END_MS = 10_000
"""By then the controller knows which brokers are gone."""


def run_seed(seed: int, kind: str = "") -> str:
    """The scenario of this seed; its number chooses the kind of faults, unless `kind` does."""
    names = list(FAULTS_BY_KIND)
    return replicated(seed, FAULTS_BY_KIND[kind or names[seed % len(names)]])


def replicated(seed: int, kinds: tuple[Misfortune, ...] = ALL, *, attempts: int = 5) -> str:
    """Torment a cluster with these faults, and judge what its clients saw; the digest of what happened."""

    async def scenario(world: World) -> None:
        draw = world.random
        power = power_cut in kinds
        # Small answers: a follower that comes back is behind for longer.
        fetch_bytes = draw.choice(("100", "1000000"))
        cluster = Cluster(
            world,
            draw.choice((3, 3, 4)),
            replicas=3,
            auto_leader_rebalance_enable=draw.choice(("false", "false", "true")),
            leader_imbalance_check_interval_seconds="1",
            replica_fetch_max_bytes=fetch_bytes,
            replica_fetch_response_max_bytes=fetch_bytes,
            leader_imbalance_per_broker_percentage="0",
            moldau_durability="group" if power else draw.choice(("os", "os", "group")),
        )
        for machine in cluster.machines:
            machine.skew_ms = draw.choice((0, 0, 0, 3_600_000, -3_600_000))
        # Who misses more than that is brought a snapshot: topics deleted and made again in between, too.
        # A follower that stands still for longer than replica.lag.time.max.ms may keep its session, or not.
        cluster.ensemble.session_timeout_ms = draw.choice((2000, 2000, 2000, 7000))
        cluster.ensemble.kept_entries_max = draw.choice((1, 5, 10_000))
        await cluster.start()
        scene = await _scene(cluster, draw, attempts)
        loop = world.loop
        changes = scene.admin.spawn(scene.change(CHANGES, draw.choice((0, 1, 3, 5, 8))))
        lives = [loop.create_task(_dies_now_and_then(world, one)) for one in scene.loads]
        lives += [
            loop.create_task(_has_a_rival(scene, one))
            for one in scene.loads
            if one.mode == TRANSACTIONAL and draw.random() < 0.4
        ]
        life = loop.create_task(scene.group.live()) if scene.group is not None else None
        await torment_cluster(cluster, scene.history, lambda: scene.over, kinds)
        for one in lives:
            await one
        await cluster.heal()
        if cluster.replaced is not None:
            await world.sleep_ms(SESSIONS_END_MS)
            if cluster.lost_for_good():
                return
        await world.until(lambda: changes.done() and (life is None or life.done()), CHANGES_SECONDS_MAX)
        changes.result()
        complaints = await cluster.drain(
            scene.history, [*scene.places, *scene.brief], scene.loads, scene.readers, scene.group
        )
        verdict = check(scene.history)
        notes = [f"{one.name}: {note}" for one in scene.loads for note in one.notes]
        faults = [f"{one.began_s:.3f} {one.name}" for one in scene.history.faults]
        text = "\n".join([*complaints[:20], str(verdict), *faults, *scene.notes, *notes[-20:]])
        assert not complaints, text
        assert verdict.result != "fail", text

    return simulate(scenario, seed)[1].digest()


async def _dies_now_and_then(world: World, load: ClusterLoad) -> None:
    """A producer's process dies, perhaps in a transaction, and comes back under the same transactional id."""
    draw = world.draw(f"{load.name}'s life")
    if draw.random() < 0.3:
        await world.sleep_ms(1500 * draw.random())
        if not load.over:
            load.kill()
            load.start()


async def _has_a_rival(scene: Scene, load: ClusterLoad) -> None:
    """Another process comes with the same transactional id, and the first one does not know that it is over:
    what either had sent arrives when the other has begun.
    """
    world = scene.cluster.world
    await world.sleep_ms(1000 * world.draw(f"{load.name}'s rival").random())
    rival = ClusterLoad(
        world,
        f"{load.name}'",
        scene.cluster.addresses,
        scene.history,
        TRANSACTIONAL,
        scene.places,
        2,
        timeout_ms=2000,
        transactional_id=load.transactional_id,
    )
    rival.start()
    scene.loads.append(rival)


async def _scene(cluster: Cluster, draw: random.Random, attempts: int) -> Scene:
    """The topic `orders`, and clients at work."""
    world = cluster.world
    scene = Scene(cluster, History(commits_rise=True), [("orders", 0), ("orders", 1)])
    settings = {
        "min_insync_replicas": draw.choice(("1", "2", "2")),
        "internal_segment_bytes": draw.choice(("1000", "1000000")),
        "unclean_leader_election_enable": "false",
    }
    await scene.admin.spawn(create_topics(scene.admin.anyone(), dict(scene.topics), 3, **settings))
    for number, mode in enumerate(draw.sample(KINDS, 3)):
        scene.loads.append(
            ClusterLoad(
                world,
                f"{mode}{number}",
                cluster.addresses,
                scene.history,
                mode,
                scene.places,
                attempts,
                timeout_ms=draw.choice(TRANSACTION_TIMEOUTS_MS),
            )
        )
    scene.readers.append(
        ClusterReader(
            world,
            "reader",
            cluster.addresses,
            scene.history,
            scene.places,
            committed=draw.random() < 0.7,
            rack=draw.choice(("", *RACKS)),
        )
    )
    if draw.random() < 0.5:
        scene.group = Group(
            world,
            cluster.addresses,
            scene.history,
            group_id="group",
            protocol=draw.choice(("classic", "consumer")),
            topics=scene.topics,
            onlooker=Onlooker(world, cluster.addresses, "group", CommittedOffsets(cluster.invariants).all),
        )
    for one in (*scene.loads, *scene.readers):
        one.start()
    return scene
