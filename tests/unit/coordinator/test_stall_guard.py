"""A process that stood still answers nothing before it knows what was decided meanwhile."""

import asyncio

from fake_peers import turns

from moldau.broker.coordinator.stall_guard import RETRY_MS, StallGuard
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers

STALL_MS = 1000


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.asked: list[asyncio.Future[bool]] = []
        self.guard = StallGuard(self.clock, self.timers, STALL_MS, self.confirm)
        self.guard.start()

    def confirm(self) -> "asyncio.Future[bool]":
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    async def answer(self, *, confirmed: bool) -> None:
        self.asked[-1].set_result(confirmed)
        await turns()


def test_who_never_stands_still_asks_nobody() -> None:
    async def main() -> None:
        world = World()
        for _ in range(20):
            world.timers.advance(STALL_MS - 1)
            assert not world.guard()
        assert world.asked == []
        world.guard.stop()
        assert not world.timers.waiting_count

    asyncio.run(main())


def test_after_standing_still_it_refuses_until_the_store_has_confirmed() -> None:
    async def main() -> None:
        world = World()
        world.clock.advance(STALL_MS + 1)  # no timer runs: the loop does not turn
        assert world.guard(), "a request is handled before the timer"
        await turns()
        world.timers.advance(10 * STALL_MS)
        assert world.guard(), "time alone does not settle it"
        assert len(world.asked) == 1
        await world.answer(confirmed=True)
        assert world.guard(), "it has taken so long that it refuses again"
        world.timers.advance(RETRY_MS)
        await turns()
        await world.answer(confirmed=False)  # the session is over
        assert world.guard()
        world.timers.advance(RETRY_MS)
        await turns()
        await world.answer(confirmed=True)
        assert not world.guard()
        world.timers.advance(STALL_MS)
        assert not world.guard()
        assert len(world.asked) == 3
        world.guard.stop()

    asyncio.run(main())


def test_a_store_that_fails_is_asked_again() -> None:
    async def main() -> None:
        world = World()
        world.clock.advance(STALL_MS + 1)
        assert world.guard()
        await turns()
        world.asked[-1].set_exception(RuntimeError("an entry is missing"))
        await turns()
        assert world.guard()
        world.timers.advance(RETRY_MS)
        await turns()
        await world.answer(confirmed=True)
        assert not world.guard()
        world.guard.stop()

    asyncio.run(main())


def test_it_notices_without_any_request() -> None:
    async def main() -> None:
        world = World()
        world.clock.advance(STALL_MS + 1)
        world.timers.advance(0)
        await turns()
        assert len(world.asked) == 1
        world.guard.stop()
        await turns()
        assert world.asked[0].cancelled()

    asyncio.run(main())
