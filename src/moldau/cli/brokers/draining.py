"""Empties a broker: its replicas are moved to other brokers, some at a time, until it holds none.

A portion of moves is submitted, and the next when all of it has ended. The moves under way are known to the
cluster, not to this command: interrupted and started again, it first waits for those that are there.
Partitions that are made meanwhile and land on the broker are moved in the end too. Leadership leaves with
the replica. Not here: which broker takes what (placement.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.cli.brokers.placement import without
from moldau.cli.shared.errors import CommandError
from moldau.cli.shared.reassignments import Move, moves_under_way, submit_moves, throttle, unthrottle

if TYPE_CHECKING:
    from moldau.cli.brokers.overview import Overview
    from moldau.cli.transactions.routing import Place, Routing

AT_ONCE = 50
POLL_SECONDS = 0.2
REFUSALS_SHOWN = 3

Targets = dict["Place", list[int]]


def plan_drain(overview: Overview, broker_id: int) -> Targets:
    """Return the new replicas of each partition on this broker; nothing is changed."""
    return without(broker_id, overview.replicas, overview.racks())


class Drain:
    """One drain. `look` reads the cluster anew; `report` is told how many partitions are left."""

    def __init__(
        self,
        routing: Routing,
        broker_id: int,
        look: Callable[[], Overview],
        report: Callable[[int], None],
        *,
        rate_bytes_per_second: int | None = None,
        at_once: int = AT_ONCE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._routing = routing
        self._broker_id = broker_id
        self._look = look
        self._report = report
        self._rate = rate_bytes_per_second
        self._at_once = at_once
        self._sleep = sleep
        self._throttled_topics: list[str] = []

    def run(self) -> int:
        """Move everything; returns the number of partitions moved. The throttle is removed in the end."""
        moved = 0
        try:
            self._wait_for_moves()
            while targets := plan_drain(self._look(), self._broker_id):
                places = list(targets)
                for start in range(0, len(places), self._at_once):
                    portion = places[start : start + self._at_once]
                    self._report(len(places) - start)
                    self._submit({place: targets[place] for place in portion})
                    self._wait_for_moves(len(places) - start - len(portion))
                    moved += len(portion)
        finally:
            if self._throttled_topics:
                unthrottle(self._routing, self._throttled_topics)
        return moved

    def _submit(self, targets: Mapping[Place, Sequence[int]]) -> None:
        if self._rate is not None:
            replicas = self._look().replicas
            moves = {
                place: (replicas[place], [one for one in target if one not in replicas[place]])
                for place, target in targets.items()
                if place in replicas
            }
            throttle(self._routing, self._rate, moves)
            self._throttled_topics = sorted({*self._throttled_topics, *(name for name, _ in moves)})
        refused = submit_moves(self._routing, targets)
        existing = self._look().replicas if refused else {}
        reasons = [
            f"{name}-{index}: {why}" for (name, index), why in refused.items() if (name, index) in existing
        ]
        if reasons:
            more = f" (and {len(reasons) - REFUSALS_SHOWN} more)" if len(reasons) > REFUSALS_SHOWN else ""
            raise CommandError(f"not moved: {'; '.join(reasons[:REFUSALS_SHOWN])}{more}")

    def _wait_for_moves(self, later: int = 0) -> None:
        """Wait for those moves away from this broker that are under way."""
        while under_way := leaving(moves_under_way(self._routing), self._broker_id):
            self._report(later + len(under_way))
            self._sleep(POLL_SECONDS)


def leaving(moves: Mapping[Place, Move], broker_id: int) -> list[Place]:
    """Return the moves that take a replica away from this broker."""
    return [place for place, move in moves.items() if broker_id in move.removing]


def cancel(routing: Routing, broker_id: int) -> int:
    """Cancel the moves away from this broker; return how many. What was copied for them is thrown away."""
    places = leaving(moves_under_way(routing), broker_id)
    if places:
        refused = submit_moves(routing, dict.fromkeys(places))
        still = [place for place in refused if place in moves_under_way(routing)]
        if still:
            raise CommandError(f"{len(still)} moves were not cancelled: {refused[still[0]]}")
        unthrottle(routing, sorted({name for name, _ in places}))
    return len(places)
