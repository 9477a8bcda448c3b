"""A plan that evens leaders, replicas and bytes over the brokers, with few moved bytes. Pure.

Three steps, each on what the one before led to:

    replicas   from the broker with the most to the one with the fewest, until they differ by one at most. Of
               the partitions that may move, the one whose size is nearest to what evens the bytes too
    bytes      two partitions change places where that brings two brokers closer, until they are within a
               tenth of the mean; the smallest sum of sizes first
    leaders    another replica becomes the preferred leader: nothing is copied. Chains (1 gives to 2, 2 gives
               to 3) are found, so that the counts end up as even as the replicas allow

A partition never has fewer racks than before. Brokers that are not in service keep their replicas, and
nothing goes there (`moldau brokers drain` empties them).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

Place = tuple[str, int]
TOLERANCE = 0.1
"""How far a broker's bytes may be from the mean, as a share of it."""
_TRIED_MAX = 50
_NEIGHBOURS = 4
_EXCHANGES_MAX = 100  # for each broker


def rebalance(
    replicas: Mapping[Place, Sequence[int]], sizes: Mapping[Place, int], racks: Mapping[int, str | None]
) -> dict[Place, list[int]]:
    """New replicas, the preferred leader first, of the partitions that change. `sizes` in bytes; `racks` has
    every broker in service.
    """
    work = _Balance(replicas, sizes, racks)
    if len(racks) > 1:
        work.even_replicas()
        work.even_bytes()
        work.even_leaders()
    return {place: target for place, target in work.replicas.items() if target != list(replicas[place])}


def moved_bytes(
    replicas: Mapping[Place, Sequence[int]],
    sizes: Mapping[Place, int],
    targets: Mapping[Place, Sequence[int]],
) -> int:
    """How many bytes are copied for these targets."""
    return sum(
        sizes.get(place, 0) * len(set(target) - set(replicas[place])) for place, target in targets.items()
    )


class _Balance:
    """Replicas in the making, and each broker's load."""

    def __init__(
        self,
        replicas: Mapping[Place, Sequence[int]],
        sizes: Mapping[Place, int],
        racks: Mapping[int, str | None],
    ) -> None:
        self.replicas = {place: list(replicas[place]) for place in sorted(replicas)}
        self._sizes = sizes
        self._racks = racks
        self._brokers = sorted(racks)
        self._held: dict[int, dict[Place, None]] = {broker: {} for broker in self._brokers}
        self._bytes = dict.fromkeys(self._brokers, 0)
        self._by_size: dict[int, list[tuple[float, Place]]] = {broker: [] for broker in self._brokers}
        """What each broker has had from the beginning, by size."""
        self._moved: set[tuple[Place, int]] = set()
        self._led: dict[tuple[int, int], dict[Place, None]] = {}
        """Partitions by preferred leader and by each other replica."""
        for place, nodes in self.replicas.items():
            for node in nodes:
                if node in racks:
                    self._held[node][place] = None
                    self._bytes[node] += self._size(place)
                    self._by_size[node].append((self._size(place), place))
        for rows in self._by_size.values():
            rows.sort()

    def _size(self, place: Place) -> int:
        return self._sizes.get(place, 0)

    # Replicas

    def even_replicas(self) -> None:
        """Move replicas until the counts differ by one at most, as far as racks allow."""
        while True:
            order = sorted(
                self._brokers, key=lambda broker: (len(self._held[broker]), self._bytes[broker], broker)
            )
            for giver, taker in self._pairs(order):
                place = self._best_to_give(giver, taker)
                if place is not None:
                    self._move(place, giver, taker)
                    break
            else:
                return

    def _pairs(self, order: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Brokers whose counts differ by more than one, the largest difference first."""
        pairs = [
            (giver, taker)
            for giver in reversed(order)
            for taker in order
            if len(self._held[giver]) - len(self._held[taker]) > 1
        ]
        return iter(sorted(pairs, key=lambda pair: len(self._held[pair[1]]) - len(self._held[pair[0]])))

    def _best_to_give(self, giver: int, taker: int) -> Place | None:
        """The partition whose size is nearest to what the giver has too much, and the taker too little, for
        each replica that is still to move.
        """
        count = len(self._brokers)
        mean_bytes = sum(self._bytes.values()) / count
        mean_replicas = sum(map(len, self._held.values())) / count
        surplus = (self._bytes[giver] - mean_bytes) / max(1.0, len(self._held[giver]) - mean_replicas)
        deficit = (mean_bytes - self._bytes[taker]) / max(1.0, mean_replicas - len(self._held[taker]))
        rows = self._by_size[giver]
        ideal = max(0.0, min(surplus, deficit))
        above = bisect_left(rows, (ideal,))
        below = above - 1
        while below >= 0 or above < len(rows):
            if above >= len(rows) or (below >= 0 and ideal - rows[below][0] <= rows[above][0] - ideal):
                row, below = rows[below], below - 1
            else:
                row, above = rows[above], above + 1
            if self._may_move(row[1], giver, taker):
                return row[1]
        return None

    def _may_move(self, place: Place, giver: int, taker: int) -> bool:
        nodes = self.replicas[place]
        if giver not in nodes or taker in nodes:
            return False
        if (place, giver) in self._moved:
            return False  # it has just come here
        others = {self._racks.get(node) for node in nodes if node != giver}
        return self._racks[taker] not in others or self._racks[giver] in others

    def _move(self, place: Place, giver: int, taker: int) -> None:
        self.replicas[place] = [taker if node == giver else node for node in self.replicas[place]]
        del self._held[giver][place]
        self._held[taker][place] = None
        rows = self._by_size[giver]
        del rows[bisect_left(rows, (self._size(place), place))]
        self._bytes[giver] -= self._size(place)
        self._bytes[taker] += self._size(place)
        self._moved.add((place, taker))

    # Bytes

    def even_bytes(self) -> None:
        """Exchange partitions between the fullest broker and emptier ones."""
        mean = sum(self._bytes.values()) / len(self._brokers)
        for _ in range(_EXCHANGES_MAX * len(self._brokers)):
            fullest = max(self._brokers, key=lambda broker: (self._bytes[broker], broker))
            if self._bytes[fullest] <= mean * (1 + TOLERANCE):
                return
            for taker in sorted(self._brokers, key=lambda broker: (self._bytes[broker], broker)):
                exchange = self._best_exchange(fullest, taker, mean) if taker != fullest else None
                if exchange is not None:
                    given, taken = exchange
                    self._move(given, fullest, taker)
                    self._move(taken, taker, fullest)
                    break
            else:
                return

    def _best_exchange(self, fullest: int, taker: int, mean: float) -> tuple[Place, Place] | None:
        """What `fullest` gives and takes: the pair that moves least, of those that even most of what is too
        much here and too little there; or else the one that evens most.
        """
        wanted = min(self._bytes[fullest] - mean, mean - self._bytes[taker])
        if wanted <= 0:
            return None
        best = None
        for size, given in self._at_least(fullest, wanted):
            for taken_size, taken in self._nearest(taker, size - wanted):
                gain = size - taken_size
                if not 0 < gain < 2 * wanted:
                    continue
                if not (self._may_move(given, fullest, taker) and self._may_move(taken, taker, fullest)):
                    continue
                evened = min(gain, 2 * wanted - gain)
                key = (2 * evened < wanted, size + taken_size if 2 * evened >= wanted else -evened)
                if best is None or (key, given, taken) < best:
                    best = (key, given, taken)
        return None if best is None else (best[1], best[2])

    def _at_least(self, broker: int, size: float) -> list[tuple[float, Place]]:
        """Some partitions of this size or more, the smallest first; the largest there are when there are
        none.
        """
        rows = self._by_size[broker]
        first = bisect_left(rows, (size,))
        return rows[first : first + _TRIED_MAX] or rows[-_TRIED_MAX:]

    def _nearest(self, broker: int, size: float) -> list[tuple[float, Place]]:
        rows = self._by_size[broker]
        place = bisect_left(rows, (size,))
        return rows[max(0, place - _NEIGHBOURS) : place + _NEIGHBOURS]

    # Leaders

    def even_leaders(self) -> None:
        """Make other replicas the first, until no chain of them evens the counts further."""
        self._led = {(owner, node): {} for owner in self._brokers for node in self._brokers}
        counts = dict.fromkeys(self._brokers, 0)
        for place, nodes in self.replicas.items():
            if nodes and nodes[0] in counts:
                counts[nodes[0]] += 1
                self._note(place, nodes)
        while True:
            for giver in sorted(self._brokers, key=lambda broker: (-counts[broker], broker)):
                chain = self._chain(giver, counts)
                if chain:
                    break
            else:
                return
            for owner, taker in chain:
                place = next(iter(self._led[owner, taker]))
                nodes = self.replicas[place]
                for node in nodes[1:]:
                    if node in counts:
                        del self._led[owner, node][place]
                self.replicas[place] = [taker, *(node for node in nodes if node != taker)]
                self._note(place, self.replicas[place])
            counts[giver] -= 1
            counts[chain[-1][1]] += 1

    def _note(self, place: Place, nodes: Sequence[int]) -> None:
        """Which replicas could take this partition over from its preferred leader."""
        for node in nodes[1:]:
            if node in self._racks:
                self._led[nodes[0], node][place] = None

    def _chain(self, giver: int, counts: Mapping[int, int]) -> list[tuple[int, int]]:
        """Who hands one partition on to whom, from `giver` to the nearest that leads at least two fewer."""
        came: dict[int, int] = {giver: giver}
        queue = deque([giver])
        while queue:
            taker = queue.popleft()
            if counts[giver] - counts[taker] > 1:
                chain: list[tuple[int, int]] = []
                while taker != giver:
                    chain.append((came[taker], taker))
                    taker = came[taker]
                return chain[::-1]
            for node in self._brokers:
                if node not in came and self._led[taker, node]:
                    came[node] = taker
                    queue.append(node)
        return []
