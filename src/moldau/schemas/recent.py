"""A bounded cache of parsed schemas: the least recently used ones are dropped.

A parsed schema takes 15 times the memory of its text, and 150 times where somebody wants it to; a registry
has thousands. So schemas keep their texts, and are parsed again when they are compared after a while.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

WEIGHT_OF_ANY = 600
"""What the smallest schema weighs, in characters of text: else ten thousand small ones are kept."""
ValueT = TypeVar("ValueT")


class Recent(Generic[ValueT]):
    """Values of the owners that asked last, as many as have `weight_max` together, but at least one.
    Thread-safe."""

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._kept: OrderedDict[object, tuple[ValueT, int]] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def get(self, owner: object, weight: int, make: Callable[[], ValueT]) -> ValueT:
        """The owner's value, made now if it is not kept; two threads may make it at once."""
        with self._lock:
            kept = self._kept.get(owner)
            if kept is not None:
                self._kept.move_to_end(owner)
                return kept[0]
        value = make()
        self.put(owner, weight, value)
        return value

    def put(self, owner: object, weight: int, value: ValueT) -> None:
        """Keep a value, and forget those that were used longest ago."""
        with self._lock:
            before = self._kept.pop(owner, None)
            self._weight += weight - (before[1] if before else 0)
            self._kept[owner] = (value, weight)
            while self._weight > self._weight_max:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._weight -= dropped
