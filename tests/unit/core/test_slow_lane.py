"""Long work leaves the loop to others after each slice, and shares one slice a turn with other long work."""

import asyncio
import gc
from collections.abc import Generator

import pytest

from moldau.common.core.slow_lane import NotWanted, SlowLane


class Ticks:
    """A clock that goes on by one at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_rows_come_in_order_and_whole() -> None:
    async def run() -> list[int]:
        return [row async for row in SlowLane(0.0).slices().each(range(1000))]

    assert asyncio.run(run()) == list(range(1000))


def test_a_slice_is_spent_by_the_clock() -> None:
    slices = SlowLane(3.0, Ticks()).slices()  # the clock says 1 at the beginning
    assert [slices.spent() for _ in range(4)] == [False, False, True, True]


def test_others_run_between_two_slices() -> None:
    seen: list[str] = []

    async def long(lane: SlowLane) -> None:
        slices = lane.slices()
        for step in range(3):
            seen.append(f"long {step}")
            await slices.next_slice()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(long(SlowLane()))

        def other() -> None:
            seen.append("other")
            if not task.done():
                loop.call_soon(other)

        loop.call_soon(other)
        await task

    asyncio.run(run())
    between = "".join("L" if each.startswith("long") else "o" for each in seen)
    assert "LL" not in between


def test_many_long_requests_share_one_slice_a_turn() -> None:
    turns: list[int] = []
    now = 0

    async def long(lane: SlowLane) -> None:
        slices = lane.slices()
        for _ in range(5):
            await slices.next_slice()
            turns.append(now)

    async def run() -> None:
        nonlocal now
        lane = SlowLane()
        tasks = [asyncio.create_task(long(lane)) for _ in range(4)]
        while not all(task.done() for task in tasks):
            now += 1
            await asyncio.sleep(0)

    asyncio.run(run())
    assert len(turns) == 20
    assert len(set(turns)) == 20


def test_a_cancelled_request_gives_its_slice_to_the_next() -> None:
    async def run() -> None:
        lane = SlowLane()
        gone = asyncio.create_task(lane.slices().next_slice())
        stays = asyncio.create_task(lane.slices().next_slice())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait_for(stays, 5)
        assert gone.cancelled()

    asyncio.run(run())


def test_the_collector_pauses_while_steps_are_made_and_goes_on_afterwards() -> None:
    seen: list[bool] = []

    def steps() -> Generator[None, None, str]:
        for _ in range(3):
            seen.append(gc.isenabled())
            yield
        return "done"

    async def run() -> list[str]:
        lane = SlowLane(0.0)
        return await asyncio.gather(*(lane.slices().run(steps()) for _ in range(2)))

    gc.enable()
    assert asyncio.run(run()) == ["done", "done"]
    assert seen == [False] * 6
    assert gc.isenabled()


def test_young_objects_are_collected_while_full_collections_pause() -> None:
    usual = gc.get_threshold()
    lane, other = SlowLane(), SlowLane()
    gc.enable()
    with lane.paused_full_collections():
        with lane.paused_full_collections():
            assert gc.isenabled()
            assert gc.get_threshold()[:2] == usual[:2]
            assert gc.get_threshold()[2] > 1_000_000
        assert gc.get_threshold()[2] > 1_000_000
    assert gc.get_threshold() == usual
    with pytest.raises(ValueError, match="x"), other.paused_full_collections():
        raise ValueError("x")
    assert gc.get_threshold() == usual


def test_a_collector_that_is_off_stays_off() -> None:
    def steps() -> Generator[None, None, None]:
        yield

    async def run() -> None:
        await SlowLane(0.0).slices().run(steps())

    gc.disable()
    try:
        asyncio.run(run())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_steps_that_nobody_wants_any_longer_are_closed() -> None:
    closed: list[bool] = []

    def steps() -> Generator[None, None, None]:
        try:
            while True:
                yield
        finally:
            closed.append(True)

    async def run() -> None:
        await SlowLane(0.0).slices().run(steps(), lambda: False)

    gc.enable()
    with pytest.raises(NotWanted):
        asyncio.run(run())
    assert closed == [True]
    assert gc.isenabled()
