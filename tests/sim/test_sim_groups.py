"""Groups of both protocols, and mixed ones, whose broker dies at any step: offsets survive, and members go
on.

The simulated counterpart of the tests of groups in tests/clients/test_kill_and_restart.py,
test_consumer_protocol.py and test_mixed_groups_wire.py: every record is read; what was committed stays
committed and does not come again; a member that lived through the broker's death keeps its partitions.
"""

from __future__ import annotations

from collections import Counter

import pytest
from sim_admin import committed_offsets, create_topics
from sim_client import SimClient
from sim_consumer import Consumer
from sim_deaths import start_until_it_runs
from sim_machine import Machine
from sim_producer import SimProducer
from sim_world import World, simulate

TOPICS = {"t": 6}
GROUP = "readers"
KINDS = {"classic": ("classic",) * 2, "consumer": ("consumer",) * 2, "mixed": ("classic", "consumer")}


async def produce(client: SimClient, first: int, count: int) -> None:
    """Numbered records, one after the other over all partitions."""
    producer = SimProducer(client)
    await producer.initialise()
    batches = [
        producer.batch(("t", number % TOPICS["t"]), [(None, b"%d" % number)])
        for number in range(first, first + count)
    ]
    await producer.deliver(batches)


def groups(seed: int, kinds: tuple[str, ...], *, power: bool) -> str:
    async def scenario(world: World) -> None:
        machine: Machine = world.machine(
            "node1",
            moldau_durability="group" if power else world.random.choice(("os", "group")),
            group_min_session_timeout_ms="500",
            group_consumer_min_heartbeat_interval_ms="100",
            group_consumer_heartbeat_interval_ms="300",
            group_consumer_migration_policy="bidirectional",
            group_consumer_assignment_interval_ms="0",
        )
        await machine.start()
        client = SimClient(world, "judge", machine.address)
        await client.spawn(create_topics(client, TOPICS))
        members = [
            Consumer(world, f"m{number}", machine.address, group_id=GROUP, protocol=kind, topics=TOPICS)
            for number, kind in enumerate(kinds)
        ]
        for one in members:
            one.start()

        def spread() -> bool:
            """Every partition has one reader."""
            held = Counter(place for one in members for place in one.member.assignment)
            return len(held) == TOPICS["t"] and set(held.values()) == {1}

        def values() -> set[int]:
            return {int(value) for one in members for _, _, value in one.read}

        count = 0
        for _ in range(world.random.randint(1, 3)):
            await world.until(spread, 120)
            await world.sleep_ms(1000)  # let it be the last of its rebalances
            before = [one.member.assignment for one in members]
            producing = client.spawn(produce(client, count, 24))
            count += 24
            machine.die_after(world.random.randint(1, 400), power=power)
            await world.until(lambda: not machine.runs, 600)
            await start_until_it_runs(world, machine, power=power)
            await producing
            await world.until(lambda count=count: values() >= set(range(count)), 120)
            await world.until(spread, 120)
            assert [one.member.assignment for one in members] == before, "partitions moved without a need"
        assert values() == set(range(count))
        ends = {("t", one): count // TOPICS["t"] for one in range(TOPICS["t"])}
        await world.until(lambda: {k: v for one in members for k, v in one.committed.items()} == ends, 60)
        machine.kill()
        await machine.start()
        found = await client.spawn(committed_offsets(client, GROUP))
        assert found == ends
        complaints = [line for one in members for line in one.complaints]
        assert not complaints, complaints
        # What was committed before does not come again to whoever reads on from there.
        rows = [row for one in members for row in one.read]
        again = [row for row, times in Counter(rows).items() if times > 1 + machine.deaths]
        assert not again, again

    return simulate(scenario, seed)[1].digest()


@pytest.mark.parametrize("power", [False, True], ids=["kill -9", "power cut"])
@pytest.mark.parametrize("kinds", list(KINDS.values()), ids=list(KINDS))
def test_a_group_survives_its_broker(kinds: tuple[str, ...], power: bool, seed: int) -> None:
    groups(seed, kinds, power=power)
