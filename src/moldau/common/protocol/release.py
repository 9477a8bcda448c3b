"""Frees a large message in steps: freeing half a million rows at once blocks the loop for tens of
milliseconds.

Only long lists of structs are emptied, from their ends and at any depth; strings, integers and short lists
are freed with their owner. There must be no other reference to the message.
"""

from collections.abc import Generator
from typing import Any

from moldau.common.protocol.declare import Struct

LONG_ROWS = 1000
_AT_ONCE = 256


_known: dict[type, tuple[str, ...]] = {}


def _list_names(cls: type[Struct]) -> tuple[str, ...]:
    names = _known.get(cls)
    if names is None:
        names = tuple(name for name, (annotation, _) in cls.FIELDS.items() if annotation.startswith("list["))
        _known[cls] = names
    return names


def release(message: Any) -> Generator[None, None, None]:
    """Empty the message's long lists of structs."""
    count = 0
    waiting: list[Any] = [message]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Struct):
            waiting.extend(
                rows
                for name in _list_names(type(value))
                if type(rows := getattr(value, name, None)) is list and rows and isinstance(rows[0], Struct)
            )
        elif len(value) > LONG_ROWS:
            nested = bool(_list_names(type(value[0])))
            while value:
                row = value.pop()
                if nested:
                    yield from release(row)
                count += 1
                if not count % _AT_ONCE:
                    yield
        elif _list_names(type(value[0])):
            waiting.extend(value)
        count += 1
        if not count % _AT_ONCE:
            yield


def release_rows(rows: Any, message: Struct) -> Generator[None, None, None]:
    """As `release`, for a message that is still being decoded and the list that is being filled. The fields
    behind it do not exist yet.
    """
    if rows and isinstance(rows[0], Struct):
        while rows:
            del rows[-_AT_ONCE:]
            yield
    yield from release(message)
