"""A leader that has deleted records hears that a follower has, too: once the follower has written it down,
and from the fetch that has the partition by then.
"""

import asyncio

from fetcher_world import HERE, LEADER, World, turns

from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.protocol.messages.fetch import PartitionData

DELETED = PartitionData(partition_index=0, records=b"0123456789", log_start_offset=4)


def test_the_leader_is_told_when_it_is_written_down() -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partition(0, LEADER, HERE)
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 0))
        await turns()
        main = world.peers["fetcher-0"]
        main.answer(DELETED)
        await turns()
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 10))
        await turns()
        assert (main.offsets(), main.starts()) == ({0: 10}, {0: 0})
        world.saving.pop()(True)
        main.answer_nothing()
        await turns()
        assert (main.offsets(), main.starts()) == ({0: 10}, {0: 4})
        world.fetcher.close()

    asyncio.run(scenario())


def test_the_leader_is_not_told_before_a_full_disk_has_room_again() -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partition(0, LEADER, HERE)
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 0))
        await turns()
        main = world.peers["fetcher-0"]
        main.answer(DELETED)
        await turns()
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 10))
        await turns()
        world.saving.pop()(False)
        main.answer_nothing()
        await turns()
        assert main.starts() == {}
        assert not world.saving
        world.timers.advance(1000)
        world.saving.pop()(True)
        main.answer_nothing()
        await turns()
        assert (main.offsets(), main.starts()) == ({0: 10}, {0: 4})
        world.fetcher.close()

    asyncio.run(scenario())


def test_the_leader_is_told_by_the_fetch_that_took_the_partition_over() -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partition(0, LEADER)
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 0))
        await turns()
        world.peers["fetcher-0-catching-up"].answer(DELETED)
        await turns()
        partition.isr = (LEADER, HERE)
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 10))
        await turns()
        main = world.peers["fetcher-0"]
        assert main.starts() == {0: 0}
        world.saving.pop()(True)
        main.answer_nothing()
        await turns()
        assert main.starts() == {0: 4}
        world.fetcher.close()

    asyncio.run(scenario())


def test_the_leader_is_told_after_the_second_connection_has_given_the_partition_back() -> None:
    async def scenario() -> None:
        world = World()
        partition, other = world.partition(0, LEADER, HERE), world.partition(1, LEADER, HERE)
        world.fetcher.fetch_from(other, FetchFrom(LEADER, 0, 0))
        await turns()
        main = world.peers["fetcher-0"]
        world.timers.advance(200)
        main.answer_nothing()
        await turns()
        assert main.wait_ms == 500
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 0))
        await turns()
        early = world.peers["fetcher-0-early"]
        early.answer(DELETED)
        await turns()
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 10))
        await turns()
        assert (early.offsets(), early.starts()) == ({0: 10}, {0: 0})
        main.answer_nothing()
        await turns()
        assert (main.offsets(), main.starts()) == ({0: 10}, {0: 0})
        world.saving.pop()(True)
        main.answer_nothing()
        await turns()
        assert main.starts() == {0: 4}
        world.fetcher.close()

    asyncio.run(scenario())
