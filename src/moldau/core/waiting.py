"""Answers that may be there at once or only later, treated alike."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


def then(outcome: Any, translate: Callable[[Any], T]) -> Any:
    """`translate` of the outcome: at once if it is there, else a coroutine."""
    if not isinstance(outcome, Awaitable):
        return translate(outcome)

    async def wait() -> T:
        return translate(await outcome)

    return wait()
