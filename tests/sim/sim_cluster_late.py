"""What a leader has asked the metadata store arrives late: another was elected meanwhile, or a follower was
registered anew. More misfortunes, as those of sim_cluster_faults.py.

    leader ── AlterPartition, based on version N ────────── held ──────────> the store has N+1: decided again
    store  <───────── N+1: another leader, or the follower's registration

A broker decides on what its leaders ask, and appends that to the store if nothing came in between. So these
are the moments at which only the epochs of the request say that it is too late.
"""

from __future__ import annotations

import contextlib
import random

from sim_client import Disconnected
from sim_cluster import Cluster
from sim_cluster_faults import Misfortune, begin, comes_back, wait_for
from sim_machine import Machine
from torture.reading import Place

from moldau.broker.metadata.image import PartitionState
from moldau.broker.replication.role_outputs import AskInSync
from moldau.common.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.common.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

_PREFERRED = 0


async def deposed_while_asking(cluster: Cluster, draw: random.Random) -> None:
    """A leader that no follower reaches asks for an in-sync set of itself; an administrator elects another
    one before that has arrived.
    """
    place, state = _some_partition(cluster, draw)
    others = [node for node in state.isr if node != state.leader]
    if state.leader < 0 or not others or state.target:
        return
    leader, next_leader = cluster.machine(state.leader), cluster.machine(draw.choice(others))
    node_id = int(next_leader.settings["node.id"])
    client = cluster.client(f"elects {cluster.world.loop.time()}")
    order = [node_id, *(node for node in state.replicas if node != node_id)]
    row = ReassignablePartition(partition_index=place[1], replicas=order)
    topics = [ReassignableTopic(name=place[0], partitions=[row])]
    with contextlib.suppress(Disconnected):
        await client.spawn(
            client.ask(next_leader.address, AlterPartitionReassignmentsRequest(topics=topics), 0)
        )
    cluster.ensemble.held.add(leader.name)
    away = [each.name for each in cluster.machines if each is not leader]
    for each in away:
        cluster.world.network.separate(leader.name, each)

    def asks() -> bool:
        asked = _asked(cluster, state.leader, place)
        return asked is not None and node_id not in asked.in_sync

    await wait_for(cluster, asks, 6.0)
    if asks():
        partitions = [TopicPartitions(topic=place[0], partitions=[place[1]])]
        request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=partitions, timeout_ms=500)
        with contextlib.suppress(Disconnected):
            await client.spawn(client.ask(next_leader.address, request, 2))
        await cluster.world.sleep_ms(200 * draw.random())
    cluster.ensemble.held.discard(leader.name)
    await cluster.world.sleep_ms(500 * draw.random())
    for each in away:
        cluster.world.network.join(leader.name, each)


async def restarts_at_its_entry(cluster: Cluster, draw: random.Random) -> None:
    """A broker that comes back is killed just when a leader has asked for it to enter the in-sync set, and is
    there again, as another registration, before that has arrived; or the leader's connection to the store
    breaks then, and it asks again.
    """
    machine = draw.choice(cluster.machines)
    controller = cluster.ensemble.controller
    node_id = int(machine.settings["node.id"])
    leaders = [
        each
        for each in cluster.machines
        if each is not machine
        and (controller is None or cluster.ensemble.store_of(each.process) is not controller.store)
    ]
    if not machine.runs or not leaders:
        return
    machine.kill()
    await cluster.world.sleep_ms(draw.choice((2500.0, 4500.0)) + 1000 * draw.random())
    leader = draw.choice(leaders)
    if machine.runs or not leader.runs:
        await comes_back(cluster, machine, draw)
        return
    cluster.ensemble.held.add(leader.name)
    started = begin(machine)
    await wait_for(cluster, lambda: _asks_for(cluster, leader, node_id) is not None, 5.0)
    place = _asks_for(cluster, leader, node_id)
    if place is not None and machine.runs:
        machine.kill()
        await cluster.world.sleep_ms(100 * draw.random())
        if not machine.runs:
            started = begin(machine)
        await wait_for(cluster, lambda: _has_heard_anew(cluster, leader, node_id, place), 4.0)
        store = cluster.ensemble.store_of(leader.process)
        if store is not None and draw.random() < 0.6:
            store.drop()
    cluster.ensemble.held.discard(leader.name)
    await started
    await comes_back(cluster, machine, draw)


def _some_partition(cluster: Cluster, draw: random.Random) -> tuple[Place, PartitionState]:
    return draw.choice(
        [
            ((name, index), state)
            for name, topic in sorted(cluster.ensemble.image.topics.items())
            for index, state in enumerate(topic.partitions)
        ]
    )


def _asked(cluster: Cluster, node_id: int, place: Place) -> AskInSync | None:
    partition = cluster.partition(node_id, place)
    return None if partition is None else partition.role.asked


def _asks_for(cluster: Cluster, leader: Machine, node_id: int) -> Place | None:
    """A partition into whose in-sync set this leader asks for that broker."""
    replicas = getattr(leader.node, "replicas", None) if leader.runs else None
    for partition in replicas.partitions() if replicas is not None else ():
        asked = partition.role.asked
        if asked is not None and node_id in asked.in_sync and node_id not in partition.isr:
            return partition.topic, partition.index
    return None


def _has_heard_anew(cluster: Cluster, leader: Machine, node_id: int, place: Place) -> bool:
    """Whether the follower has fetched from this leader under another registration than it had then."""
    partition = cluster.partition(int(leader.settings["node.id"]), place) if leader.runs else None
    if partition is None or partition.role.asked is None:
        return True
    asked, progress = partition.role.asked, partition.role.followers.get(node_id)
    if progress is None or node_id not in asked.in_sync:
        return True
    return progress.broker_epoch != asked.broker_epochs[asked.in_sync.index(node_id)]


LATE: tuple[Misfortune, ...] = (deposed_while_asking, restarts_at_its_entry)
