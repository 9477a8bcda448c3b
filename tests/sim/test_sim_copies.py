"""Workers copy a topic exactly once, in a group of either protocol, while they and the broker die.

The simulated counterpart of torture's `copy-classic` and `copy-consumer`, with its judges: the output is
exactly the transform of the input, each record once, and the group has committed everything.
"""

from __future__ import annotations

import pytest
from sim_admin import committed_offsets, create_topics
from sim_client import SimClient
from sim_deaths import torment
from sim_producer import SimProducer
from sim_reader import read, settled_ends
from sim_worker import TRANSACTION_TIMEOUT_MS, Worker
from sim_world import World, simulate
from torture.judge_loop import judge_offsets, judge_output
from torture.worker import transformed

SOURCE, TARGET = {"in": 3}, {"out": 2}
RECORDS = 120


async def fill(client: SimClient, segment_bytes: str) -> list[bytes]:
    """Numbered records, spread over the partitions of the source."""
    await create_topics(client, SOURCE | TARGET, internal_segment_bytes=segment_bytes)
    producer = SimProducer(client)
    await producer.initialise()
    values = [b"%d" % number for number in range(RECORDS)]
    batches = [
        producer.batch(("in", start % SOURCE["in"]), [(value, value) for value in values[start : start + 4]])
        for start in range(0, RECORDS, 4)
    ]
    await producer.deliver(batches)
    return values


def copies(seed: int, protocol: str, *, power: bool) -> str:
    async def scenario(world: World) -> None:
        durability = "group" if power else world.random.choice(("os", "group"))
        machine = world.machine(
            "node1",
            moldau_durability=durability,
            group_min_session_timeout_ms="500",
            group_consumer_min_session_timeout_ms="500",
            group_consumer_session_timeout_ms="2000",
            group_consumer_min_heartbeat_interval_ms="100",
            group_consumer_heartbeat_interval_ms="300",
        )
        await machine.start()
        client = SimClient(world, "judge", machine.address)
        values = await client.spawn(fill(client, world.random.choice(("2000", "50000"))))
        ends, complaints = await client.spawn(settled_ends(client, SOURCE, 15))
        group = f"copiers-{protocol}"
        workers = [
            Worker(
                world,
                f"w{one}",
                machine.address,
                group_id=group,
                protocol=protocol,
                source=SOURCE,
                target=TARGET,
            )
            for one in range(2)
        ]
        for one in workers:
            one.start()
        await torment(world, machine, workers, lambda: False, kill_clients=True, power=power)
        deadline = world.loop.time() + 300
        while left := judge_offsets(await client.spawn(committed_offsets(client, group)), ends):
            assert world.loop.time() < deadline, left
            await world.sleep_ms(100)
        for one in workers:
            one.kill()
        out_ends, hanging = await client.spawn(
            settled_ends(client, TARGET, 20 + TRANSACTION_TIMEOUT_MS / 1000)
        )
        seen, wrong = await client.spawn(read(client, out_ends))
        complaints += hanging + wrong + judge_output(values, transformed, seen)
        machine.kill()
        await machine.start()
        complaints += judge_offsets(await client.spawn(committed_offsets(client, group)), ends)
        assert not complaints, "\n".join(complaints[:20])

    return simulate(scenario, seed)[1].digest()


@pytest.mark.parametrize("power", [False, True], ids=["kill -9", "power cut"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_record_is_copied_once(protocol: str, power: bool, seed: int) -> None:
    copies(seed, protocol, power=power)
