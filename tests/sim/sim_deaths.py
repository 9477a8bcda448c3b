"""How scenarios torment: the broker dies at any step and again while it starts, clients die, connections
break, hosts are cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sim_machine import Machine
from sim_world import World


class Mortal(Protocol):
    """A client that is killed, and started again under its name."""

    @property
    def name(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...


async def start_until_it_runs(
    world: World, machine: Machine, *, power: bool = False, chance: float = 0.3
) -> None:
    """Start the broker; with this chance it dies on the way, at any step, and is started again."""
    while True:
        await world.sleep_ms(world.random.choice((0, 5, 100)))
        if world.random.random() < chance:
            machine.die_after(world.random.randint(0, 150), power=power)
        await machine.begin_start()
        machine.die_after(None)
        if machine.runs:  # it may have died just after it was ready
            return


async def die_and_start(
    world: World, machine: Machine, idle: Callable[[], bool], *, power: bool = False
) -> None:
    """The broker dies some steps from now, at once if the clients are idle by then, and starts again."""
    machine.die_after(world.random.randint(1, world.random.choice((100, 3000))), power=power)
    await world.until(lambda: not machine.runs or idle(), 600)
    if machine.runs:
        machine.kill()
    await start_until_it_runs(world, machine, power=power)


async def _separate(world: World, machine: Machine, duration_ms: float) -> None:
    """Some clients cannot reach the broker for a while, nor it them; it may be long enough for a timeout."""
    hosts = [each.host for each in world.processes if each.alive and world.random.random() < 0.5]
    await world.sleep_ms(world.random.random() * 200)
    for host in hosts:
        world.network.separate(host, machine.name)
    await world.sleep_ms(duration_ms)
    for host in hosts:
        world.network.join(host, machine.name)


async def torment(
    world: World,
    machine: Machine,
    clients: Sequence[Mortal],
    idle: Callable[[], bool],
    *,
    kill_clients: bool,
    power: bool = False,
) -> None:
    """One to four misfortunes. Clients whose name begins with `ghost` are not started again."""
    draw = world.random
    world.network.latency_seconds_max = draw.choice((0.0005, 0.002, 0.02))
    world.network.segment_bytes_max = draw.choice((64 * 1024, 1400, 100))
    for _ in range(draw.randint(1, 4)):
        choice = draw.random()
        if kill_clients and choice < 0.5:
            await world.sleep_ms(draw.random() * 300)
            one = draw.choice(clients)
            one.kill()
            if not one.name.startswith("ghost"):
                one.start()
        elif choice > 0.9:
            await world.sleep_ms(draw.random() * 200)
            world.network.reset(0.5)
        elif choice > 0.8:
            await _separate(world, machine, draw.random() * 8000)
        else:
            await die_and_start(world, machine, idle, power=power)
