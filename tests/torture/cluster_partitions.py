"""Faults of a real network between machines (network.py): packets that are lost or late, one way too.

    isolate     a leader's machine and the others do not hear each other; clients reach all of them
    deaf        it is heard, and hears nothing
    mute        it hears, and nothing that it says arrives
    pair        two machines do not hear each other, the third hears both; one way or both
    away        a leader's machine is cut off from everybody, its clients too
    slow        all packets between machines are late and out of order, and some are lost

A machine has a broker and a ZooKeeper server, so the ensemble suffers as well. What is cut off must lose its
leadership, as another broker sees it; of the other faults, packets must have been lost or late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from torture.cluster_faults import Faults
from torture.network import OUTSIDE, Network

ISOLATE, DEAF, MUTE, PAIR, AWAY, SLOW = "isolate", "deaf", "mute", "pair", "away", "slow"
KINDS = (ISOLATE, DEAF, MUTE, PAIR, AWAY, SLOW)
DELAY_S, JITTER_S, LOSS = 0.02, 0.06, 0.01
Way = tuple[int, int]


class Partitions:
    """Adds these faults to those that a round has."""

    def __init__(self, faults: Faults, network: Network) -> None:
        self._faults = faults
        self._network = network

    def kinds(self) -> dict[str, Callable[[], None]]:
        """What each of KINDS does."""
        return {
            ISOLATE: lambda: self._cut_off(ISOLATE, self._both),
            DEAF: lambda: self._cut_off(DEAF, self._towards),
            MUTE: lambda: self._cut_off(MUTE, self._away_from),
            AWAY: lambda: self._cut_off(
                AWAY, lambda node: [*self._both(node), (node, OUTSIDE), (OUTSIDE, node)]
            ),
            PAIR: self._pair,
            SLOW: self._slow,
        }

    def _others(self, node: int) -> Iterator[int]:
        return (each for each in self._network.numbers if each != node)

    def _towards(self, node: int) -> list[Way]:
        return [(other, node) for other in self._others(node)]

    def _away_from(self, node: int) -> list[Way]:
        return [(node, other) for other in self._others(node)]

    def _both(self, node: int) -> list[Way]:
        return self._towards(node) + self._away_from(node)

    def _cut_off(self, name: str, ways: Callable[[int], Sequence[Way]]) -> None:
        faults, node = self._faults, self._faults.leader()
        with faults.fault(f"{name} {node}"):
            self._network.rules([(*way, 1.0, 0.0, 0.0) for way in ways(node)])
            try:
                until = time.monotonic() + faults.seconds(5.0)
                faults.wait_until_felt(lambda: not faults.leads(node))
                time.sleep(max(0.0, until - time.monotonic()))
            finally:
                self._network.rules()

    def _pair(self) -> None:
        """The ensemble and the controller hear both, so nobody need lose a leadership."""
        faults, node = self._faults, self._faults.leader()
        other = faults.draw.choice([*self._others(node)])
        ways = faults.draw.choice([[(node, other)], [(other, node)], [(node, other), (other, node)]])
        with faults.fault(f"pair {ways}"):
            self._hold([(*way, 1.0, 0.0, 0.0) for way in ways])

    def _slow(self) -> None:
        ways = [(one, other) for one in self._network.numbers for other in self._others(one)]
        with self._faults.fault("slow"):
            self._hold([(*way, LOSS, DELAY_S, JITTER_S) for way in ways])

    def _hold(self, rules: Sequence[tuple[int, int, float, float, float]]) -> None:
        self._network.rules(rules)
        time.sleep(self._faults.seconds(5.0))
        self._faults.felt = self._network.rules() > 0
