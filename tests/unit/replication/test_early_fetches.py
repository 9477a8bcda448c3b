"""Partitions that cannot wait until a request that waits at the leader returns begin over a second
connection.
"""

import asyncio

import pytest
from fetcher_world import HERE, LEADER, World, turns

from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import PartitionData


@pytest.mark.parametrize(
    ("errors", "least_ms", "most_ms", "comes_early"), [(1, 40, 60, False), (4, 320, 480, True)]
)
def test_newcomers_do_not_wait_for_a_request_that_waits_until_a_pause_ends(
    errors: int, least_ms: int, most_ms: int, comes_early: bool
) -> None:
    async def scenario() -> None:
        world = World()
        for index in range(2):
            world.fetcher.fetch_from(world.partition(index, LEADER, HERE), FetchFrom(LEADER, 0, 0))
        await turns()
        main = world.peers["fetcher-0"]
        world.clock.advance(200)
        for attempt in range(errors):
            if attempt:
                world.clock.advance(500)  # the last pause ends
                main.answer_nothing()
                await turns()
            main.answer(PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
            await turns()
        assert least_ms <= main.wait_ms <= most_ms
        world.fetcher.fetch_from(world.partition(2, LEADER, HERE), FetchFrom(LEADER, 0, 0))
        await turns()
        assert ("fetcher-0-early" in world.peers) is comes_early
        world.fetcher.close()

    asyncio.run(scenario())


def test_who_was_late_does_not_wait_for_the_request_that_was_sent_without_it() -> None:
    async def scenario() -> None:
        world = World()
        late, other = world.partition(0, LEADER, HERE), world.partition(1, LEADER, HERE)
        for each in (late, other):
            world.fetcher.fetch_from(each, FetchFrom(LEADER, 0, 0))
        await turns()
        main = world.peers["fetcher-0"]
        world.timers.advance(200)
        main.answer(PartitionData(partition_index=0, records=b"0123456789"))
        await turns()
        assert len(main.waiting) == 1  # the next one waits until the records are safe
        world.timers.advance(100)
        await turns()
        assert (len(main.waiting), main.wait_ms, main.left_out()) == (2, 500, {0})
        world.timers.advance(10)
        world.fetcher.fetch_from(late, FetchFrom(LEADER, 0, 10))
        await turns()
        early = world.peers["fetcher-0-early"]
        assert early.offsets() == {0: 10}
        early.answer(PartitionData(partition_index=0, records=b"01234"))
        await turns()
        world.fetcher.fetch_from(late, FetchFrom(LEADER, 0, 15))
        await turns()
        assert early.offsets() == {0: 15}
        assert (len(early.waiting), len(main.waiting)) == (2, 2)
        main.answer_nothing()
        await turns()
        assert main.offsets() == {0: 15}  # it goes on with the others
        early.answer_nothing()
        await turns()
        assert len(early.waiting) == 2
        world.fetcher.close()

    asyncio.run(scenario())


def test_who_is_late_and_had_errors_waits_with_the_others() -> None:
    """Its pauses go on growing."""

    async def scenario() -> None:
        world = World()
        late, other = world.partition(0, LEADER, HERE), world.partition(1, LEADER, HERE)
        for each in (late, other):
            world.fetcher.fetch_from(each, FetchFrom(LEADER, 0, 0))
        await turns()
        main = world.peers["fetcher-0"]
        world.timers.advance(200)
        late.corrupt = True
        main.answer(PartitionData(partition_index=0, records=b"0123456789"))
        await turns()
        world.timers.advance(100)  # the pause ends, and what was appended is not safe yet
        main.answer_nothing()
        await turns()
        assert main.wait_ms == 500
        world.fetcher.fetch_from(late, FetchFrom(LEADER, 0, 10))
        await turns()
        assert "fetcher-0-early" not in world.peers
        main.answer_nothing()
        await turns()
        assert main.offsets() == {0: 10}
        world.fetcher.close()

    asyncio.run(scenario())


def test_many_are_taken_over_in_slices_and_who_stops_meanwhile_is_not() -> None:
    async def scenario() -> None:
        world = World(slice_seconds=0.0)
        first, *others = (world.partition(index, LEADER, HERE) for index in range(30))
        world.fetcher.fetch_from(first, FetchFrom(LEADER, 0, 0))
        await turns()
        main = world.peers["fetcher-0"]
        world.timers.advance(200)
        main.answer_nothing()
        await turns()
        assert main.wait_ms == 500
        for partition in others:
            world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 0))
        await turns()
        early = world.peers["fetcher-0-early"]
        assert early.asked() == set(range(1, 30))
        main.answer_nothing()
        await turns()
        assert len(main.waiting) == 2  # there were turns for others in between
        world.fetcher.stop(others[-1])
        world.fetcher.stop(others[0])
        for _ in range(3):
            await turns()
        assert main.asked() == set(range(2, 29))
        early.answer_nothing()
        await turns()
        assert len(early.waiting) == 1
        world.fetcher.close()

    asyncio.run(scenario())
