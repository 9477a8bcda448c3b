"""A bug met while fetching holds up neither the other partitions nor, for ever, its own."""

import asyncio
from typing import Any

import pytest
from fetcher_world import HERE, LEADER, World, turns

from moldau.broker.replication.following.fetch_machine import FetchMachine
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import PartitionData


def test_a_partition_whose_new_start_meets_a_bug_pauses_and_is_fetched_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partition(0, LEADER, HERE)
        world.fetcher.fetch_from(partition, FetchFrom(LEADER, 0, 7))
        await turns()
        main = world.peers["fetcher-0"]

        def restart_at(leader_epoch: int, offset: int) -> bool:
            raise RuntimeError("a bug")

        partition.restart_at, partition.log.log_end_offset = restart_at, 7
        main.answer(PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        await turns()
        assert len(main.waiting) == 1
        assert "a bug" in caplog.text
        world.timers.advance(100)
        await turns()
        assert (len(main.waiting), main.offsets()) == (2, {0: 7})
        world.fetcher.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("owner", "name"), [(FetchMachine, "tick"), (FetchMachine, "may_request")])
def test_the_loop_goes_on_after_a_bug_when_it_has_paused(
    owner: type, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        world = World()
        world.fetcher.fetch_from(world.partition(0, LEADER, HERE), FetchFrom(LEADER, 0, 0))
        await turns()
        main = world.peers["fetcher-0"]
        calls = 0

        def fails(*_: Any) -> None:
            nonlocal calls
            calls += 1
            raise RuntimeError("a bug")

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, fails)
            main.answer_nothing()
            await turns()
            assert (calls, len(main.waiting)) == (1, 1)
            assert [leader for leader, _, _ in world.fetcher.failing()] == [LEADER]
            world.timers.advance(100)
            await turns()
            assert (calls, len(main.waiting)) == (2, 1)
        assert "a bug" in caplog.text
        world.timers.advance(200)
        await turns()
        assert (len(main.waiting), main.offsets()) == (2, {0: 0})
        main.answer_nothing()
        await turns()
        assert not list(world.fetcher.failing())
        world.fetcher.close()

    asyncio.run(scenario())
