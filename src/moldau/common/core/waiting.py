"""`Answer[T]`: a T, or an awaitable of it. The type of everything that may have to wait.

Most requests are answered at once, and only those that wait should cost a task: so such a function returns
the value itself if it has it. Callers handle both with:

    then(answer, translate)        the translated answer, at once or later
    together(answers, combine)     one answer made of several
    await settled(answer)          inside a coroutine

A T that is itself an awaitable is not supported.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias, TypeGuard, TypeVar

T = TypeVar("T")
R = TypeVar("R")

Answer: TypeAlias = T | Awaitable[T]


def is_later(answer: Answer[T]) -> TypeGuard[Awaitable[T]]:
    """Whether the answer must be awaited."""
    return isinstance(answer, Awaitable)


async def settled(answer: Answer[T]) -> T:
    """The value, awaited if necessary."""
    return await answer if is_later(answer) else answer  # type: ignore[return-value]  # else it is a T


def then(answer: Answer[T], translate: Callable[[T], R]) -> Answer[R]:
    """`translate` of the value: at once, or as a coroutine."""
    if not is_later(answer):
        return translate(answer)  # type: ignore[arg-type]

    async def wait() -> R:
        return translate(await answer)

    return wait()


def together(answers: Iterable[Answer[T]], combine: Callable[[list[T]], R]) -> Answer[R]:
    """`combine` of all values, in their order: at once, or as a coroutine."""
    items = list(answers)
    if not any(map(is_later, items)):
        return combine(items)  # type: ignore[arg-type]

    async def wait() -> R:
        return combine([await settled(item) for item in items])

    return wait()
