"""Partitions that a follower is not in sync for are fetched over a connection of their own, and come back."""

import asyncio

from fetcher_world import HERE, LEADER, World, turns

from moldau.broker.replication.role_outputs import FetchFrom


def test_who_catches_up_is_fetched_apart_and_comes_back_with_its_next_records() -> None:
    async def scenario() -> None:
        world = World()
        behind, in_sync = world.partition(0, LEADER), world.partition(1, LEADER, HERE)
        for each in (behind, in_sync):
            world.fetcher.fetch_from(each, FetchFrom(LEADER, 0, 0))
        await turns()
        assert world.peers["fetcher-0-catching-up"].asked() == {0}
        assert world.peers["fetcher-0"].asked() == {1}
        world.clock.advance(100)
        world.peers["fetcher-0"].answer_nothing()  # nobody came for a while: the next request waits long
        await turns()
        behind.isr = (LEADER, HERE)
        world.fetcher.fetch_from(behind, FetchFrom(LEADER, 0, 10))  # after its records were appended
        await turns()
        # The others' request waits at the leader: the newcomer does not wait with it.
        assert world.peers["fetcher-0-early"].asked() == {0}
        world.peers["fetcher-0"].answer_nothing()
        await turns()
        world.peers["fetcher-0-early"].answer_nothing()
        await turns()
        in_sync.isr = (LEADER,)
        world.fetcher.fetch_from(in_sync, FetchFrom(LEADER, 0, 3))
        world.peers["fetcher-0-catching-up"].answer_nothing()
        await turns()
        assert world.peers["fetcher-0-catching-up"].asked() == {1}
        world.fetcher.close()

    asyncio.run(scenario())


def test_who_is_in_sync_and_gets_nothing_comes_back_when_nothing_comes() -> None:
    async def scenario() -> None:
        world = World()
        joined, behind = world.partition(0, LEADER), world.partition(1, LEADER)
        for each in (joined, behind):
            world.fetcher.fetch_from(each, FetchFrom(LEADER, 0, 0))
        await turns()
        assert world.peers["fetcher-0-catching-up"].asked() == {0, 1}
        joined.isr = (LEADER, HERE)
        world.peers["fetcher-0-catching-up"].answer_nothing()
        await turns()
        assert world.peers["fetcher-0"].asked() == {0}
        request, _ = world.peers["fetcher-0-catching-up"].waiting[-1]
        assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
        world.fetcher.close()

    asyncio.run(scenario())
