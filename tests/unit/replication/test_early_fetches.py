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
