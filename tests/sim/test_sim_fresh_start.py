"""The first moments of a new broker, which dies while it takes its first records, and again while it starts.

The simulated counterpart of torture's `fresh-start` and of the steady writer in tests/clients/
test_kill_and_restart.py: every record that was acknowledged is there, in place, once, and in order. Death may
come at any step of the very first start as well.
"""

from __future__ import annotations

import pytest
from sim_admin import create_topics
from sim_client import SimClient
from sim_deaths import start_until_it_runs
from sim_machine import Machine
from sim_producer import Sent, SimProducer
from sim_reader import list_ends, read
from sim_world import World, simulate
from torture.judge_acknowledged import judge_acknowledged

TOPIC = "first"


class Writer:
    """Writes numbered records until stopped, and notes the offset of each acknowledgement."""

    def __init__(self, world: World, machine: Machine) -> None:
        self.client = SimClient(world, "writer", machine.address)
        self.acknowledged: dict[int, int] = {}
        self.stopping = False
        self.done = self.client.spawn(self._run())

    async def _run(self) -> None:
        await create_topics(self.client, {TOPIC: 1})
        producer = SimProducer(self.client)
        await producer.initialise()
        number = 0
        while not self.stopping:
            batches: list[tuple[int, Sent]] = []
            for _ in range(self.client.random.randint(1, 5)):
                count = self.client.random.randint(1, 4)
                pairs = [(None, b"%d" % (number + one)) for one in range(count)]
                batches.append((number, producer.batch((TOPIC, 0), pairs)))
                number += count
            await producer.deliver([sent for _, sent in batches])
            for first, sent in batches:
                assert sent.base_offset is not None
                for one in range(sent.count):
                    self.acknowledged[first + one] = sent.base_offset + one


def fresh_start(seed: int, durability: str, *, power: bool) -> str:
    async def scenario(world: World) -> None:
        machine = world.machine("node1", moldau_durability=durability)
        await start_until_it_runs(world, machine, power=power, chance=0.8)
        writer = Writer(world, machine)
        for _ in range(3):
            wanted = len(writer.acknowledged) + world.random.choice((0, 1, 10, 100))
            await world.until(lambda wanted=wanted: len(writer.acknowledged) >= wanted)
            machine.die_after(world.random.randint(0, 40), power=power)
            await world.until(lambda: not machine.runs)
            await start_until_it_runs(world, machine, power=power, chance=0.4)
        wanted = len(writer.acknowledged) + 1
        await world.until(lambda: len(writer.acknowledged) >= wanted)
        writer.stopping = True
        await writer.done
        ends = await writer.client.spawn(list_ends(writer.client, {TOPIC: 1}, committed=True))
        assert ends is not None
        seen, complaints = await writer.client.spawn(read(writer.client, ends))
        complaints += judge_acknowledged(writer.acknowledged, seen)
        assert not complaints, complaints

    return simulate(scenario, seed)[1].digest()


@pytest.mark.seeds(10)
@pytest.mark.parametrize("durability", ["os", "group"])
def test_acknowledged_records_survive_kill_9(durability: str, seed: int) -> None:
    fresh_start(seed, durability, power=False)


@pytest.mark.seeds(10)
def test_acknowledged_records_survive_a_power_cut(seed: int) -> None:
    fresh_start(seed, "group", power=True)
