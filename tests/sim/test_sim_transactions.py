"""Transactional, idempotent and plain producers, while they and the broker die at any step.

The simulated counterpart of torture's `transactions` and `dying-producers`, with its judges: an acknowledged
record is there, once and in place; an aborted one is never seen; a transaction is whole or absent; what a
reader has seen once stays. A ghost is a producer that dies and never comes back: the broker alone must end
its transaction.
"""

from __future__ import annotations

import pytest
from sim_admin import create_topics
from sim_client import SimClient
from sim_deaths import torment
from sim_load import Load, Plan
from sim_machine import Machine
from sim_reader import Witness, read, settled_ends
from sim_world import World, simulate
from torture.judge_transactions import differences, judge
from torture.ledger import IDEMPOTENT, PLAIN, TRANSACTION

TOPICS = {"left": 3, "right": 2}
GHOST_TIMEOUT_MS = 3000


def loads(world: World, machine: Machine, *, ghost: bool, power: bool) -> list[Load]:
    modes = {"t0": TRANSACTION, "t1": TRANSACTION, "i": IDEMPOTENT, "p": PLAIN}
    if ghost:
        modes["ghost"] = TRANSACTION
    return [
        Load(
            world,
            name,
            machine.address,
            Plan(
                mode,
                12,
                TOPICS,
                size_max=world.random.choice((100, 1000, 8000)),
                timeout_ms=GHOST_TIMEOUT_MS if name == "ghost" else world.random.choice((3000, 60_000)),
                acks=-1 if power or mode == TRANSACTION else world.random.choice((-1, 1)),
            ),
        )
        for name, mode in modes.items()
    ]


def transactions(seed: int, *, kill_clients: bool, power: bool) -> str:
    async def scenario(world: World) -> None:
        machine = world.machine(
            "node1", moldau_durability="group" if power else world.random.choice(("os", "group"))
        )
        await machine.start()
        client = SimClient(world, "judge", machine.address)
        segment_bytes = str(world.random.choice((2000, 20_000, 1 << 30)))
        settings = {
            "internal_segment_bytes": segment_bytes,
            "compression_type": world.random.choice(("producer", "producer", "zstd")),
            "message_timestamp_type": world.random.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        }
        await client.spawn(create_topics(client, TOPICS, **settings))
        producers = loads(world, machine, ghost=kill_clients, power=power)
        witness = Witness(SimClient(world, "witness", machine.address), TOPICS)
        for one in producers:
            one.start()
        await torment(
            world,
            machine,
            producers,
            lambda: all(each.over for each in producers),
            kill_clients=kill_clients,
            power=power,
        )
        for one in producers:
            if one.name == "ghost":
                one.kill()
        await world.until(lambda: all(each.over for each in producers), 600)
        complaints: list[str] = []
        ends, hanging = await client.spawn(settled_ends(client, TOPICS, 20))
        complaints += hanging
        seen, wrong = await client.spawn(read(client, ends))
        attempts = [attempt for each in producers for attempt in each.attempts]
        complaints += wrong + judge(attempts, seen)
        witnessed, wrong = await witness.finish(ends)
        complaints += wrong + differences("afterwards and all the while", seen, witnessed)
        for end_it in (machine.kill, machine.stop):
            ending = end_it()
            if ending is not None:
                await ending
            await machine.start()
            again, hanging = await client.spawn(settled_ends(client, TOPICS, 20))
            complaints += hanging
            if again != ends:
                complaints.append(f"ends changed by a restart: {ends} became {again}")
            seen_again, wrong = await client.spawn(read(client, ends))
            complaints += wrong + differences(f"before and after {end_it.__name__}", seen, seen_again)
        notes = [f"{each.name} {note}" for each in producers for note in each.notes]
        assert not complaints, "\n".join([*complaints[:20], *notes[-20:]])
        assert any(one.outcome == "committed" for one in attempts)

    return simulate(scenario, seed)[1].digest()


@pytest.mark.parametrize("power", [False, True], ids=["kill -9", "power cut"])
@pytest.mark.parametrize("kill_clients", [False, True], ids=["producers live", "producers die"])
def test_what_was_promised_survives(kill_clients: bool, power: bool, seed: int) -> None:
    transactions(seed, kill_clients=kill_clients, power=power)
