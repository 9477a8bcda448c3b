"""How much an object keeps: what is never forgotten shows as growth, whatever the attribute's name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary

_CONTAINERS = (dict, list, set, frozenset, deque, WeakValueDictionary)


def kept(thing: object) -> int:
    """The entries of the containers that an object (or a module) has as attributes, and of those inside them:
    a dictionary of two lists of three each has eight. Other objects are not looked into.
    """
    return sum(_entries(value) for value in _attributes(thing))


def _attributes(thing: object) -> Iterator[Any]:
    if isinstance(thing, ModuleType):
        yield from (value for name, value in vars(thing).items() if not name.startswith("__"))
        return
    yield from getattr(thing, "__dict__", {}).values()
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
                yield getattr(thing, name)


def _entries(value: object) -> int:
    if not isinstance(value, _CONTAINERS):
        return 0
    inner = list(value.values()) if isinstance(value, dict | WeakValueDictionary) else list(value)
    return len(inner) + sum(map(_entries, inner))
