"""A value that is there is passed on at once; one that comes later is passed on later, as the same value."""

import asyncio
from collections.abc import Awaitable

import pytest

from moldau.common.core.waiting import Answer, is_later, settled, then, together


async def _later(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def _fails() -> int:
    raise OSError("gone")


def test_what_is_there_is_translated_at_once() -> None:
    assert then(20, lambda value: value + 1) == 21
    assert then(None, lambda value: value is None) is True


def test_what_comes_later_is_translated_later() -> None:
    async def scene() -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        for answer in (_later(20), future):
            translated: Answer[str] = then(answer, str)
            assert is_later(translated)
            if not future.done():
                future.set_result(20)
            assert await translated == "20"

    asyncio.run(scene())


def test_several_answers_are_combined_in_their_order_whichever_is_there_first() -> None:
    async def scene() -> None:
        assert together([1, 2], sum) == 3
        assert together([], len) == 0
        slow: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        combined = together([slow, 2, _later(3)], list)
        assert is_later(combined)
        asyncio.get_running_loop().call_soon(slow.set_result, 1)
        assert await combined == [1, 2, 3]

    asyncio.run(scene())


def test_settled_is_the_value_either_way() -> None:
    async def scene() -> None:
        assert await settled(5) == 5
        assert await settled(_later(5)) == 5

    asyncio.run(scene())


def test_an_error_is_passed_on() -> None:
    async def scene() -> None:
        for answer in (then(_fails(), str), together([1, _fails()], list)):
            assert isinstance(answer, Awaitable)
            with pytest.raises(OSError, match="gone"):
                await answer

    asyncio.run(scene())
