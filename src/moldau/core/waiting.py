"""`Answer[T]`: a T that is there already, or an awaitable of it. The type of whatever may have to wait.

Most requests are answered at once, and only those that wait shall cost a task: so such a function returns the
value itself where it has it. Callers do not ask which of the two they got:

    then(answer, translate)        the translated answer, again at once or later
    together(answers, combine)     one answer made of several
    await settled(answer)          inside a coroutine, where waiting costs nothing more

A T that is an awaitable itself cannot be told from one that comes later; do not use that.
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
    """The value, waited for if need be."""
    return await answer if is_later(answer) else answer  # type: ignore[return-value]  # else it is a T


def then(answer: Answer[T], translate: Callable[[T], R]) -> Answer[R]:
    """`translate` of the value: at once if it is there, else a coroutine of it."""
    if not is_later(answer):
        return translate(answer)  # type: ignore[arg-type]

    async def wait() -> R:
        return translate(await answer)

    return wait()


def together(answers: Iterable[Answer[T]], combine: Callable[[list[T]], R]) -> Answer[R]:
    """`combine` of all values, in their order: at once if all are there, else a coroutine of it."""
    items = list(answers)
    if not any(map(is_later, items)):
        return combine(items)  # type: ignore[arg-type]

    async def wait() -> R:
        return combine([await settled(item) for item in items])

    return wait()
