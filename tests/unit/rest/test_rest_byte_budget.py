"""Bytes in use, of a fixed number: order, limits, waiters that give up."""

import asyncio

import pytest

from moldau.services.kafka.byte_budget import ByteBudget

LONG_SECONDS = 100.0


def test_who_needs_more_than_is_free_waits_in_turn():
    async def run() -> list[str]:
        budget, order = ByteBudget(10), []

        async def user(name: str, count_bytes: int) -> None:
            await budget.take(count_bytes, LONG_SECONDS)
            order.append(name)

        await user("first", 8)
        large, small = asyncio.ensure_future(user("large", 9)), asyncio.ensure_future(user("small", 1))
        await asyncio.sleep(0)
        assert order == ["first"], "a small request must not overtake a large one for ever"
        budget.give_back(8)
        await asyncio.gather(large, small)
        assert budget.used_bytes == 10
        return order

    assert asyncio.run(run()) == ["first", "large", "small"]


def test_what_is_larger_than_the_budget_goes_alone():
    async def run() -> None:
        budget = ByteBudget(10)
        await budget.take(50, LONG_SECONDS)
        assert not budget.try_take(1)
        budget.give_back(50)
        assert budget.try_take(1)
        assert not budget.try_take(50)

    asyncio.run(run())


def test_a_waiter_that_gives_up_holds_nobody_up():
    async def run() -> None:
        budget = ByteBudget(10)
        assert budget.try_take(8)
        with pytest.raises(TimeoutError):
            await budget.take(9, 0.0)
        assert budget.try_take(2)
        second = asyncio.ensure_future(budget.take(5, LONG_SECONDS))
        third = asyncio.ensure_future(budget.take(1, LONG_SECONDS))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        budget.give_back(2)
        await third
        assert budget.used_bytes == 9

    asyncio.run(run())


def test_bytes_given_to_a_waiter_that_is_cancelled_at_that_moment_are_not_lost():
    async def run() -> None:
        budget = ByteBudget(10)
        assert budget.try_take(10)
        waiter = asyncio.ensure_future(budget.take(10, LONG_SECONDS))
        await asyncio.sleep(0)
        budget.give_back(10)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert budget.used_bytes == (0 if waiter.cancelled() else 10)

    asyncio.run(run())


def test_what_stands_leaves_room_for_what_goes():
    async def run() -> None:
        budget = ByteBudget(100)
        assert [budget.try_stand(30) for _ in range(3)] == [True, True, False]
        await budget.take(1_000, LONG_SECONDS)  # alone beside what stands
        waiting = asyncio.ensure_future(budget.take(1_000, LONG_SECONDS))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.give_back(1_000)
        await waiting
        budget.give_back(1_000)
        for _ in range(2):
            budget.end_standing(30)
        assert (budget.used_bytes, budget.standing_bytes) == (0, 0)

    asyncio.run(run())


def test_no_more_stands_than_is_free():
    budget = ByteBudget(100)
    assert budget.try_take(95)
    assert budget.try_stand(10), "the first one stands whatever is used"
    assert not budget.try_stand(10)
    budget.give_back(95)
    assert budget.try_stand(10)
    budget.end_standing(10)
    budget.end_standing(10)
    assert (budget.used_bytes, budget.standing_bytes) == (0, 0)


def test_one_may_stand_in_a_budget_smaller_than_it():
    budget = ByteBudget(10)
    assert budget.try_stand(30)
    assert not budget.try_stand(30)
    assert budget.try_take(5)
    assert not budget.try_take(5)
