"""What is done to a cluster, drawn from the seed: one misfortune after another, now and then two at once.

Each is a coroutine that begins, lasts, and ends by itself; `Cluster.heal` ends whatever is left. The list is
by who is hit: a broker's process, its disk, the network, the metadata store.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from histories.history import Fault, History
from sim_client import Disconnected
from sim_cluster import Cluster
from sim_machine import Machine, disk_full
from sim_store import ENSEMBLE, SimStore

from moldau.broker.metadata.image import Image
from moldau.common.protocol.messages.elect_leaders import ElectLeadersRequest

Misfortune = Callable[[Cluster, random.Random], Coroutine[Any, Any, None]]


def _seconds(draw: random.Random) -> float:
    """Mostly shorter than a session, sometimes much longer than everything."""
    return draw.choice((0.2, 1.0, 4.0, 4.0, 12.0)) * draw.random()


def _works(operation: str, path: str) -> None:
    """The disk works."""


def begin(machine: Machine) -> asyncio.Future[bool]:
    """Start it with a disk that works: on a failing one a broker does not start, which another of the
    misfortunes may have begun meanwhile."""
    machine.disk_fault = _works
    return machine.begin_start()


async def comes_back(cluster: Cluster, machine: Machine, draw: random.Random, *, power: bool = False) -> None:
    """Start it after a while; it may die on the way."""
    await cluster.world.sleep_ms(1000 * _seconds(draw))
    while not machine.runs:
        if draw.random() < 0.2:
            machine.die_after(draw.randint(0, 300), power=power)
        await begin(machine)
    machine.die_after(None)


async def _dies(cluster: Cluster, draw: random.Random, *, power: bool) -> None:
    machine = draw.choice(cluster.machines)
    machine.die_after(draw.randint(0, draw.choice((20, 500))), power=power)
    await wait_for(cluster, lambda: not machine.runs, 3.0)
    if machine.runs:
        machine.power_cut() if power else machine.kill()
    await comes_back(cluster, machine, draw, power=power)


async def wait_for(cluster: Cluster, done: Callable[[], bool], seconds_max: float) -> None:
    end = cluster.world.loop.time() + seconds_max
    while not done() and cluster.world.loop.time() < end:
        await cluster.world.sleep_ms(5)


async def kill(cluster: Cluster, draw: random.Random) -> None:
    """kill -9 at any step."""
    await _dies(cluster, draw, power=False)


async def power_cut(cluster: Cluster, draw: random.Random) -> None:
    """A machine without power: what was not synced is there by chance. Needs durability `group`."""
    await _dies(cluster, draw, power=True)


async def stop(cluster: Cluster, draw: random.Random) -> None:
    """An orderly stop, and a start."""
    machine = draw.choice(cluster.machines)
    if machine.runs and machine.node is not None and machine.node.phase == "RUNNING":
        await machine.stop()
    await comes_back(cluster, machine, draw)


async def pause(cluster: Cluster, draw: random.Random) -> None:
    """SIGSTOP, for up to 40 seconds."""
    machine = draw.choice(cluster.machines)
    machine.pause()
    await cluster.world.sleep_ms(1000 * draw.choice((1.0, 5.0, 5.0, 40.0)) * draw.random())
    machine.resume()


async def late_loop(cluster: Cluster, draw: random.Random) -> None:
    """A broker whose loop runs late: it stands still again and again, each time shorter than its session, and
    finds what came meanwhile (answers, timers, closed connections) at once.
    """
    machine = draw.choice(cluster.machines)
    longest_ms = draw.choice((50.0, 400.0, 1500.0))
    end = cluster.world.loop.time() + draw.choice((1.0, 4.0, 8.0))
    while cluster.world.loop.time() < end:
        machine.pause()
        await cluster.world.sleep_ms(longest_ms * draw.random())
        machine.resume()
        await cluster.world.sleep_ms(draw.choice((1.0, 20.0, 200.0)) * draw.random())


async def stands_behind(cluster: Cluster, draw: random.Random) -> None:
    """One broker is slow: its disk, or its links. As follower it falls behind; as leader it waits."""
    machine = draw.choice(cluster.machines)
    seconds = draw.choice((0.05, 0.5, 2.0))
    if draw.random() < 0.5:
        cluster.world.network.slow_hosts[machine.name] = seconds
    elif machine.process is not None:
        machine.process.work_seconds = seconds
    await cluster.world.sleep_ms(1000 * draw.choice((2.0, 6.0, 12.0)) * draw.random())
    cluster.world.network.slow_hosts.pop(machine.name, None)
    if machine.process is not None:
        machine.process.work_seconds = 0.0


async def kill_all(cluster: Cluster, draw: random.Random) -> None:
    """kill -9 of all brokers, at once or one after the other; all come back."""
    machines = draw.sample(cluster.machines, len(cluster.machines))
    for machine in machines:
        machine.kill()
        await cluster.world.sleep_ms(draw.choice((0.0, 0.0, 700.0)) * draw.random())
    for machine in draw.sample(machines, len(machines)):
        await cluster.world.sleep_ms(draw.choice((0.0, 100.0, 3000.0)) * draw.random())
        if not machine.runs:
            begin(machine)


async def loses_its_end_at_its_entry(cluster: Cluster, draw: random.Random) -> None:
    """A replica that comes back loses the end of its log, or all of it, just when its leader has asked for it
    to enter the in-sync set, and is there again before that is decided: the store is slow.

    Once a run, as `loses_its_disk`.
    """
    machine = draw.choice(cluster.machines)
    if cluster.replaced is not None or not machine.runs:
        return
    cluster.replaced = machine
    node_id = int(machine.settings["node.id"])
    machine.kill()
    await cluster.world.sleep_ms(draw.choice((700, 4000)))
    if not machine.runs:
        await begin(machine)
    cluster.ensemble.latency_seconds_max = 0.5

    def asking() -> Machine | None:
        for each in cluster.machines:
            replicas = getattr(each.node, "replicas", None) if each.runs else None
            for partition in replicas.partitions() if replicas is not None else ():
                asked = partition.role.asked
                if asked is not None and node_id in asked.in_sync and node_id not in partition.isr:
                    return each
        return None

    await wait_for(cluster, lambda: asking() is not None, 3.0)
    leader = asking()
    if machine.runs and leader is not None and not _is_last(cluster, node_id):
        await _hold_back(cluster, leader, draw)
        cluster.invariants.has_lost(machine)
        machine.power_cut()
        if draw.random() < 0.5:
            machine.replace_disk()
        await cluster.world.sleep_ms(draw.choice((0.0, 100.0)) * draw.random())
        await begin(machine)
    elif machine.runs:
        cluster.replaced = None
    await cluster.world.sleep_ms(2000 * draw.random())
    cluster.ensemble.latency_seconds_max, cluster.ensemble.loss = 0.004, 0.0
    for each in cluster.machines:
        if leader is not None:
            cluster.world.network.join(leader.name, each.name)
    await comes_back(cluster, machine, draw)


async def _hold_back(cluster: Cluster, leader: Machine, draw: random.Random) -> None:
    """What a leader has asked the controller does not get there for now, or its answer is lost: the leader
    asks again when the controller may know more.
    """
    controller = cluster.ensemble.controller
    network = cluster.world.network
    if controller is None or draw.random() < 0.3:
        return
    for each in cluster.machines:
        if each is not leader and cluster.ensemble.store_of(each.process) is controller.store:
            network.separate(leader.name, each.name)
            if draw.random() < 0.5:
                network.reset_between(leader.name, each.name)


async def elections_while_behind(cluster: Cluster, draw: random.Random) -> None:
    """A broker comes back behind the others, and an administrator asks for preferred leaders just then, again
    and again; in-sync changes are under way meanwhile, and the store may be slow.
    """
    ensemble, machine = cluster.ensemble, draw.choice(cluster.machines)
    node_id = int(machine.settings["node.id"])
    network = cluster.world.network
    if draw.random() < 0.5:
        machine.kill()
    else:
        for each in cluster.machines:  # it lives, and falls behind
            if each is not machine:
                network.separate(machine.name, each.name)
    await cluster.world.sleep_ms(draw.choice((2500.0, 4500.0)))
    ensemble.latency_seconds_max, ensemble.loss = draw.choice(((0.004, 0.0), (0.2, 0.0)))
    if draw.random() < 0.7:
        network.slow_hosts[machine.name] = 0.3
    for each in cluster.machines:
        network.join(machine.name, each.name)
    started = None if machine.runs else begin(machine)
    await wait_for(cluster, lambda: node_id in ensemble.live(), 3.0)
    client = cluster.client(f"elects {cluster.world.loop.time()}")
    request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=500)
    for _ in range(draw.randint(1, 6)):
        with contextlib.suppress(Disconnected):
            await client.spawn(client.ask(draw.choice(cluster.machines).address, request, 2))
        await cluster.world.sleep_ms(150 * draw.random())
    ensemble.latency_seconds_max, ensemble.loss = 0.004, 0.0
    network.slow_hosts.pop(machine.name, None)
    if started is not None:
        await started


async def leads_alone(cluster: Cluster, draw: random.Random) -> None:
    """A broker keeps its session, and no other broker reaches it for long: the in-sync sets of its partitions
    shrink to it. It may die before the others are back, and come back later.
    """
    machine = draw.choice(cluster.machines)
    others = [each.name for each in cluster.machines if each is not machine]
    for other in others:
        cluster.world.network.separate(machine.name, other)
    await cluster.world.sleep_ms(draw.choice((3500.0, 5000.0)) + 1500 * draw.random())
    dies = draw.random() < 0.5
    if dies:
        machine.kill()
    for other in others:
        cluster.world.network.join(machine.name, other)
    if dies:
        await cluster.world.sleep_ms(3000 * draw.random())
        await comes_back(cluster, machine, draw)


def _is_last(cluster: Cluster, node_id: int) -> bool:
    """Whether a partition has its committed records on this broker alone."""
    return any(
        node_id in (state.isr or state.elr) and len(state.isr or state.elr) == 1
        for topic in cluster.ensemble.image.topics.values()
        for state in topic.partitions
    )


async def isolate(cluster: Cluster, draw: random.Random) -> None:
    """One broker is cut off: from the other brokers, from the store, or from both; in one direction or both.
    Clients still reach it."""
    one = draw.choice(cluster.machines).name
    others = [machine.name for machine in cluster.machines if machine.name != one]
    others = draw.choice((others, [ENSEMBLE], [*others, ENSEMBLE], others[:1]))
    await _cut(cluster, draw, [one], others)


async def halve(cluster: Cluster, draw: random.Random) -> None:
    """Clients and brokers on two sides, the store on one of them."""
    hosts = [*cluster.hosts, *(each.host for each in cluster.world.processes if each.alive)]
    one = [host for host in hosts if draw.random() < 0.3]
    await _cut(cluster, draw, one, [host for host in hosts if host not in one])


async def _cut(cluster: Cluster, draw: random.Random, here: Sequence[str], there: Sequence[str]) -> None:
    network = cluster.world.network
    direction = draw.choice(("both", "both", "out", "in"))
    pairs = [(one, other) for one in here for other in there]
    for one, other in pairs:
        if direction == "in":
            network.separate(other, one, one_way=True)
        else:
            network.separate(one, other, one_way=direction == "out")
    await cluster.world.sleep_ms(1000 * _seconds(draw))
    for one, other in pairs:
        network.join(one, other)


async def break_connections(cluster: Cluster, draw: random.Random) -> None:
    """Some connections are reset, or forgotten by one end."""
    for _ in range(draw.randint(1, 4)):
        break_them = draw.choice((cluster.world.network.reset, cluster.world.network.half_open))
        break_them(draw.random())
        await cluster.world.sleep_ms(300 * draw.random())


async def slow_network(cluster: Cluster, draw: random.Random) -> None:
    """Long ways, small segments."""
    network = cluster.world.network
    network.latency_seconds_max = draw.choice((0.02, 0.3))
    network.segment_bytes_max = draw.choice((1400, 100))
    await cluster.world.sleep_ms(1000 * _seconds(draw))
    network.latency_seconds_max, network.segment_bytes_max = 0.002, 64 * 1024


async def store_away(cluster: Cluster, draw: random.Random) -> None:
    """Nobody reaches the metadata store, for up to a minute."""
    cluster.ensemble.away = True
    await cluster.world.sleep_ms(1000 * draw.choice((1.0, 5.0, 60.0)) * draw.random())
    cluster.ensemble.away = False


async def store_unreliable(cluster: Cluster, draw: random.Random) -> None:
    """Answers of the store are lost or late."""
    cluster.ensemble.loss = draw.choice((0.0, 0.3))
    cluster.ensemble.latency_seconds_max = draw.choice((0.004, 0.3))
    for _ in range(draw.randint(1, 5)):
        await cluster.world.sleep_ms(300 * _seconds(draw))
        for machine in cluster.machines:
            store = cluster.ensemble.store_of(machine.process)
            if store is not None and draw.random() < 0.3:
                store.drop()
    cluster.ensemble.loss, cluster.ensemble.latency_seconds_max = 0.0, 0.004


async def session_ends(cluster: Cluster, draw: random.Random) -> None:
    """A broker's session ends, while it serves."""
    store = cluster.ensemble.store_of(draw.choice(cluster.machines).process)
    if store is not None:
        store.expire()


async def session_ends_at_a_change(cluster: Cluster, draw: random.Random) -> None:
    """A session ends just when a change is made: that of the controller, or of a new leader."""
    ensemble, left = cluster.ensemble, draw.randint(1, 4)
    told = ensemble.on_append

    def appended(before: Image, after: Image) -> None:
        nonlocal left
        told(before, after)
        left -= 1
        if left:
            return
        ensemble.on_append = told
        leaders = [state.leader for topic in after.topics.values() for state in topic.partitions]
        leaders = [leader for leader in leaders if leader > 0]
        store = ensemble.controller and ensemble.controller.store
        if leaders and draw.random() < 0.5:
            store = ensemble.store_of(cluster.machine(draw.choice(leaders)).process)
        if isinstance(store, SimStore):
            ensemble.later(0.01 * draw.random(), store.expire)

    ensemble.on_append = appended
    for _ in range(3):
        await session_ends(cluster, draw)
        await cluster.world.sleep_ms(1000 * _seconds(draw))
    ensemble.on_append = told


async def loses_its_disk(cluster: Cluster, draw: random.Random) -> None:
    """A broker comes back soon, with an empty disk or without what was not synced, under its old node id.

    Once a run, and only where every partition of it has another in-sync replica then: what lies on one disk
    alone is lost with it.
    """
    machine = draw.choice(cluster.machines)
    if cluster.replaced is not None or not machine.runs:
        return
    cluster.replaced = machine
    machine.kill()
    await cluster.world.sleep_ms(draw.choice((700, 700, 4000)))  # what it had asked of the store is decided
    node_id = int(machine.settings["node.id"])
    if _is_last(cluster, node_id) or machine.runs:
        cluster.replaced = None
    else:
        cluster.invariants.has_lost(machine)
        if draw.random() < 0.5:
            machine.replace_disk()
        else:
            machine.power_cut()
    if not machine.runs:
        await begin(machine)
    await comes_back(cluster, machine, draw)


async def disk_is_full(cluster: Cluster, draw: random.Random) -> None:
    """One broker can write nothing for a while."""
    machine = draw.choice(cluster.machines)
    machine.disk_fault = disk_full  # also of a follower: it falls behind, and goes on by itself
    await cluster.world.sleep_ms(1000 * _seconds(draw))
    machine.disk_fault = _works


async def disk_fails(cluster: Cluster, draw: random.Random) -> None:
    """Some writes and syncs of one broker fail, and it is started again later."""
    machine = draw.choice(cluster.machines)
    chance = draw.choice((0.05, 1.0))

    def fault(operation: str, path: str) -> None:
        if operation in ("write", "sync") and draw.random() < chance:
            raise OSError(errno.EIO, "input/output error", path)

    machine.disk_fault = fault
    await cluster.world.sleep_ms(1000 * _seconds(draw))
    machine.disk_fault = _works
    machine.kill()
    await comes_back(cluster, machine, draw)


PROCESSES: tuple[Misfortune, ...] = (kill, kill, kill_all, stop, pause, pause, late_loop, stands_behind)
LOSSES: tuple[Misfortune, ...] = (loses_its_disk, loses_its_end_at_its_entry)
NETWORK: tuple[Misfortune, ...] = (isolate, isolate, halve, break_connections, slow_network)
STORE: tuple[Misfortune, ...] = (store_away, store_unreliable, session_ends, session_ends_at_a_change)
DISKS: tuple[Misfortune, ...] = (disk_is_full, disk_fails)
ELECTIONS: tuple[Misfortune, ...] = (elections_while_behind, elections_while_behind, leads_alone)
ALL = PROCESSES + NETWORK + STORE + LOSSES + LOSSES + ELECTIONS


async def torment_cluster(
    cluster: Cluster,
    history: History,
    is_idle: Callable[[], bool],
    kinds: Sequence[Misfortune] = ALL,
    *,
    count_max: int = 3,
) -> None:
    """Up to so many misfortunes; a fault counts as felt when somebody was at work."""
    world, draw = cluster.world, cluster.world.draw("faults")
    running: list[Awaitable[None]] = []
    for _ in range(draw.randint(1, count_max)):
        await world.sleep_ms(400 * draw.random())
        misfortune = draw.choice(kinds)
        fault = Fault(misfortune.__name__, world.loop.time(), bit=not is_idle())
        history.faults.append(fault)
        world.loop.trace.add(world.loop.time(), "faults", misfortune.__name__)
        task = world.loop.create_task(misfortune(cluster, draw))
        if draw.random() < 0.3:
            running.append(task)
        else:
            await task
    for each in running:
        await each
