"""Keyed updates and tombstones on a compacted topic, an eager cleaner, and death at any step of both.

The simulated counterpart of torture's `compaction`, with its judge: of every key the latest value is there,
no record has moved, tombstones stay as long as they must. Besides `__consumer_offsets` compacts itself, and
its groups stand where they were put. A run in which nothing was cleaned proves nothing, and fails.
"""

from __future__ import annotations

import pytest
from sim_admin import committed_offsets, create_topics
from sim_client import SimClient
from sim_deaths import torment
from sim_load import Load, Plan
from sim_offsets import OffsetsLoad
from sim_reader import read, settled_ends
from sim_world import World, simulate
from torture.judge_compaction import judge_latest
from torture.ledger import IDEMPOTENT, TRANSACTION

TOPICS = {"map": 2}


def compaction(seed: int, *, power: bool) -> tuple[int, str]:
    """How many records compaction has taken away, and the digest."""

    async def scenario(world: World) -> int:
        draw = world.random
        tombstones_stay = draw.random() < 0.5
        machine = world.machine(
            "node1",
            moldau_durability="group" if power else draw.choice(("os", "group")),
            log_cleaner_backoff_ms="100",
            log_cleaner_min_cleanable_ratio="0.01",
            offsets_topic_segment_bytes="1048576",
            offsets_topic_num_partitions="1",
            offset_metadata_max_bytes="65536",
            log_cleaner_dedupe_buffer_size=draw.choice(("1048577", "134217728")),
        )
        await machine.start()
        client = SimClient(world, "judge", machine.address)
        await client.spawn(
            create_topics(
                client,
                TOPICS,
                cleanup_policy="compact",
                internal_segment_bytes=draw.choice(("1500", "6000")),
                min_cleanable_dirty_ratio="0.01",
                delete_retention_ms="3600000" if tombstones_stay else "1000",
                file_delete_delay_ms=draw.choice(("0", "500")),
            )
        )
        loads = [
            Load(
                world,
                name,
                machine.address,
                Plan(mode, 40, TOPICS, key_count=12, tombstone_share=0.2, timeout_ms=5000),
            )
            for name, mode in (("i", IDEMPOTENT), ("t", TRANSACTION))
        ]
        offsets = OffsetsLoad(world, machine.address, "map", 3, 60, note="n" * 30_000)
        for one in (*loads, offsets):
            one.start()

        def idle() -> bool:
            return offsets.over and all(each.over for each in loads)

        for _ in range(3):
            await world.sleep_ms(draw.choice((100, 1500)))  # the cleaner begins a second after the start
            await torment(world, machine, loads, idle, kill_clients=False, power=power)
        await world.until(idle, 600)
        ends, complaints = await client.spawn(settled_ends(client, TOPICS, 20))
        await world.sleep_ms(3000)
        attempts = [attempt for each in loads for attempt in each.attempts]
        seen, wrong = await client.spawn(read(client, ends))
        complaints += wrong + judge_latest(attempts, seen, tombstones_stay=tombstones_stay)
        found = {
            group: (await client.spawn(committed_offsets(client, group))).get(("map", 0), -1)
            for group in offsets.asked
        }
        complaints += offsets.judge(found)
        machine.kill()
        await machine.start()
        again, wrong = await client.spawn(read(client, ends))
        complaints += wrong + judge_latest(attempts, again, tombstones_stay=tombstones_stay)
        notes = [f"{each.name} {note}" for each in loads for note in each.notes]
        assert not complaints, "\n".join([*complaints[:20], *notes[-20:]])
        committed = sum(one.outcome == "committed" for one in attempts for _ in one.records)
        return committed - len(again)

    removed, trace = simulate(scenario, seed)
    return removed, trace.digest()


@pytest.mark.parametrize("power", [False, True], ids=["kill -9", "power cut"])
def test_latest_values_survive(power: bool, seed: int) -> None:
    removed, _ = compaction(seed, power=power)
    assert removed > 50, "hardly anything was cleaned, so that this run proves nothing"
