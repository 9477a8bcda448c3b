"""How fast replicas catch up: by how late timers fire, and by who waits for them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from fetcher_world import HERE, LEADER, World, turns

from moldau.broker.replication.following.catch_up_pace import (
    CROWDED_BYTES,
    FLOOR_BYTES_PER_MS,
    FULL_BYTES,
    LATE_MS,
    LOOK_MS,
    REST_MS_MAX,
    REST_MS_MIN,
    CatchUpPace,
    Gap,
)
from moldau.broker.replication.following.follower_session import FetchLimits
from moldau.broker.replication.following.giving_way import give_way
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.protocol.messages.fetch import PartitionData

RESPONSE = 3_000_000


def test_without_others_a_fetch_rests_for_a_millisecond() -> None:
    pace = CatchUpPace()
    for turn in range(100):
        assert pace.rest_ms(RESPONSE, 10.0 * turn) == REST_MS_MIN
        pace.rested(1.0)
    assert pace.crowding == 0


def run(
    pace: CatchUpPace, late_ms: float, count: int, transfer_ms: float, fetches: int = 1, start_ms: float = 0.0
) -> float:
    """Bytes a millisecond of so many responses, of several fetches that share the pace."""
    ends = [start_ms + each for each in range(fetches)]
    began, total = min(ends), 0
    for _ in range(count):
        first = ends.index(min(ends))
        now_ms = ends[first] + transfer_ms
        ends[first] = now_ms + pace.rest_ms(RESPONSE, now_ms) + late_ms
        pace.rested(late_ms)
        total += RESPONSE
    return total / (max(ends) - began)


@pytest.mark.parametrize("fetches", [1, 2, 5])
def test_in_a_crowd_all_fetches_together_take_the_floor_and_not_less(fetches: int) -> None:
    pace = CatchUpPace()
    rate = run(pace, LATE_MS + 0.5, 400, 6.0 * fetches, fetches)
    assert pace.crowding == 1
    assert 0.9 * FLOOR_BYTES_PER_MS < rate < 1.15 * FLOOR_BYTES_PER_MS


def test_a_crowd_that_has_gone_is_forgotten() -> None:
    pace = CatchUpPace()
    run(pace, LATE_MS + 1, 50, 6.0)
    run(pace, 0.5, 200, 6.0, start_ms=1e6)
    assert pace.crowding == 0
    assert run(pace, 0.5, 100, 6.0, start_ms=2e6) > 0.9 * RESPONSE / (6.0 + REST_MS_MIN + 0.5)


def test_in_a_crowd_responses_are_small() -> None:
    pace = CatchUpPace()
    limits = FetchLimits(500, 1, 10_000_000, 1_000_000)
    assert pace.within(limits) == limits
    pace.rested(LATE_MS + 1)
    assert pace.within(limits) == FetchLimits(500, 1, CROWDED_BYTES, 1_000_000)
    assert CROWDED_BYTES > FULL_BYTES, "or it would not rest"
    small = limits._replace(response_bytes_max=1000)
    assert pace.within(small) == small, "as the settings say"


def test_a_rest_ends_soon_whatever_came() -> None:
    pace = CatchUpPace()
    for _ in range(10):
        pace.rested(LATE_MS + 1)
    assert pace.rest_ms(10_000_000_000, 5.0) == REST_MS_MAX


def test_a_gap_that_closes_lets_others_go_first() -> None:
    gap = Gap()
    assert gap.is_due(0.0)
    gap.seen(1_000_000, is_waited_for=False, now_ms=0.0)
    assert not gap.hurries
    assert not gap.is_due(LOOK_MS - 1)
    assert gap.is_due(LOOK_MS)
    gap.seen(900_000, is_waited_for=False, now_ms=LOOK_MS)
    assert not gap.hurries
    gap.seen(899_900, is_waited_for=False, now_ms=2 * LOOK_MS)
    assert gap.hurries, "producers are about as fast"
    gap.seen(800_000, is_waited_for=False, now_ms=3 * LOOK_MS)
    assert not gap.hurries
    gap.seen(700_000, is_waited_for=True, now_ms=4 * LOOK_MS)
    assert gap.hurries, "producers wait for this replica"
    gap.seen(2_000_000, is_waited_for=False, now_ms=1_000 * LOOK_MS)
    assert not gap.hurries, "another gap: the last one was long ago"


def catching_up(world: World, index: int) -> Any:
    partition = world.partition(index, LEADER)
    partition.role = SimpleNamespace(leader_high_watermark=10**9, is_under_min_in_sync=False)
    return partition


def full(index: int) -> PartitionData:
    return PartitionData(partition_index=index, high_watermark=10**9, records=bytes(FULL_BYTES))


@pytest.mark.parametrize("is_under_min", [False, True])
def test_the_next_request_waits_after_a_full_response_unless_producers_do(is_under_min: bool) -> None:
    async def scenario() -> None:
        world = World()
        partition = catching_up(world, 0)
        partition.role.is_under_min_in_sync = is_under_min
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 0))
        await turns()
        (peers,) = world.peers.values()
        peers.answer(full(0))
        await turns()
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, partition.log.log_end_offset))
        await turns()
        assert len(peers.waiting) == (2 if is_under_min else 1)
        world.timers.advance(int(REST_MS_MIN))
        await turns()
        assert len(peers.waiting) == 2
        peers.answer(PartitionData(partition_index=0, high_watermark=10**9, records=bytes(100)))
        await turns()
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, partition.log.log_end_offset))
        await turns()
        assert len(peers.waiting) == 3, "that was all there is"
        world.fetcher.close()
        await turns()

    asyncio.run(scenario())


def test_who_is_in_sync_never_rests() -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partition(0, LEADER, HERE)
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 0))
        await turns()
        (peers,) = world.peers.values()
        peers.answer(full(0))
        await turns()
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, partition.log.log_end_offset))
        await turns()
        assert len(peers.waiting) == 2
        world.fetcher.close()
        await turns()

    asyncio.run(scenario())


def test_of_many_partitions_the_gap_is_looked_at_in_slices() -> None:
    async def scenario() -> None:
        world = World(slice_seconds=0.0)
        parts, gap = world.fetcher._parts, Gap()
        partitions = [catching_up(world, index) for index in range(300)]
        giving = asyncio.ensure_future(give_way(parts, CatchUpPace(), gap, partitions, FULL_BYTES))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert gap.is_due(world.clock.monotonic_ms()), "others had a turn in between"
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not gap.is_due(world.clock.monotonic_ms())
        world.timers.advance(int(REST_MS_MIN))
        await giving

    asyncio.run(scenario())
