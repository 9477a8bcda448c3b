"""The course of numbers over the last minutes, in a fixed memory: what sparklines and charts show.

Values are kept with their moments in rings of 64-bit numbers, POINTS for each name. A name whose value has
not changed yet is not kept, since most topics of a large cluster lie still: its course is a level line.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from itertools import pairwise

POINTS = 120


class Ring:
    """The last POINTS moments (in ms) and values."""

    __slots__ = ("_at", "_count", "_moments", "_values")

    def __init__(self) -> None:
        self._moments = array("q", bytes(8 * POINTS))
        self._values = array("d", bytes(8 * POINTS))
        self._at = 0
        self._count = 0

    def add(self, moment_ms: int, value: float) -> None:
        """One more; the oldest goes."""
        self._moments[self._at] = moment_ms
        self._values[self._at] = value
        self._at = (self._at + 1) % POINTS
        self._count = min(POINTS, self._count + 1)

    def points(self) -> list[tuple[int, float]]:
        """Moments and values, the oldest first."""
        start = (self._at - self._count) % POINTS
        return [
            (self._moments[(start + step) % POINTS], self._values[(start + step) % POINTS])
            for step in range(self._count)
        ]


class Series:
    """Courses by name."""

    def __init__(self) -> None:
        self._rings: dict[str, Ring] = {}
        self._still: dict[str, tuple[int, float]] = {}
        """The first moment and the value of names that have not changed since."""
        self._latest_ms = 0

    def add(self, moment_ms: int, values: Mapping[str, float]) -> None:
        """One value for each name that there is; other names are forgotten."""
        for name in [each for each in self._rings if each not in values]:
            del self._rings[name]
        for name in [each for each in self._still if each not in values]:
            del self._still[name]
        for name, value in values.items():
            ring = self._rings.get(name)
            if ring is None:
                first = self._still.setdefault(name, (moment_ms, value))
                if first[1] == value:
                    continue
                ring = self._rings[name] = Ring()
                ring.add(*first)
                if first[0] < self._latest_ms:
                    ring.add(self._latest_ms, first[1])
                del self._still[name]
            ring.add(moment_ms, value)
        self._latest_ms = moment_ms

    def course(self, name: str) -> list[tuple[int, float]]:
        """Moments and values of a name, the oldest first."""
        ring = self._rings.get(name)
        if ring is not None:
            return ring.points()
        still = self._still.get(name)
        if still is None:
            return []
        return [still, (self._latest_ms, still[1])] if self._latest_ms > still[0] else [still]

    def rates(self, name: str) -> list[tuple[int, float]]:
        """The change a second between the points of a name that only grows; a fall counts as none."""
        return changes_per_second(self.course(name))

    def latest_rates(self, names: Iterable[str]) -> dict[str, float]:
        """The last change a second of each name that has two points."""
        found = {}
        for name in names:
            ring = self._rings.get(name)
            points = ring.points()[-2:] if ring is not None else self.course(name)
            rates = changes_per_second(points)
            if rates:
                found[name] = rates[-1][1]
        return found


def changes_per_second(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """By the moment at its end, the change a second of each step; not below 0."""
    return [
        (at, max(0.0, (value - before) * 1000 / (at - was)))
        for (was, before), (at, value) in pairwise(points)
        if at > was
    ]
