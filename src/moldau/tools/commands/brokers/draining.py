"""Empties a broker: its replicas are moved to other brokers, some at a time, until it holds none.

Interrupted and started again, it first waits for the moves that are under way. Partitions that are made
meanwhile and land on the broker are moved in the end too. Leadership leaves with the replica. Not here: which
broker takes what (placement.py), portions and the throttle (shared/moving.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.client.admin.reassignments import Move, find_moves, submit_moves, unthrottle
from moldau.tools.commands.brokers.placement import without
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.moving import POLL_SECONDS, Moving
from moldau.tools.shared.options import DEFAULT_AT_ONCE

if TYPE_CHECKING:
    from moldau.client.admin.layout import Layout, Place
    from moldau.tools.commands.brokers.overview import Overview

Targets = dict["Place", list[int]]


def plan_drain(overview: Overview, broker_id: int) -> Targets:
    """Return the new replicas of each partition on this broker; nothing is changed."""
    return without(broker_id, overview.replicas, overview.racks())


class Drain:
    """One drain. `look` reads the cluster anew; `report` is told how many partitions are left."""

    def __init__(
        self,
        layout: Layout,
        broker_id: int,
        look: Callable[[], Overview],
        report: Callable[[int], None],
        *,
        rate_bytes_per_second: int | None = None,
        at_once: int = DEFAULT_AT_ONCE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._layout = layout
        self._broker_id = broker_id
        self._look = look
        self._report = report
        self._rate = rate_bytes_per_second
        self._at_once = at_once
        self._sleep = sleep

    def run(self) -> int:
        """Move everything; returns the number of partitions moved. The throttle is removed in the end."""
        moved = 0
        self._wait_for_moves()
        while targets := plan_drain(self._look(), self._broker_id):
            moving = Moving(
                self._layout,
                targets,
                report=self._report,
                rate_bytes_per_second=self._rate,
                at_once=self._at_once,
                replicas=lambda: self._look().replicas,
                sleep=self._sleep,
            )
            try:
                moving.run()
            except BaseException:
                moving.finish()
                raise
            moved += len(targets)
        return moved

    def _wait_for_moves(self) -> None:
        """Wait for those moves away from this broker that are under way."""
        while under_way := leaving(find_moves(self._layout.cluster), self._broker_id):
            self._report(len(under_way))
            self._sleep(POLL_SECONDS)


def leaving(moves: Mapping[Place, Move], broker_id: int) -> list[Place]:
    """Return the moves that take a replica away from this broker."""
    return [place for place, move in moves.items() if broker_id in move.removing]


def cancel(layout: Layout, broker_id: int) -> int:
    """Cancel the moves away from this broker; return how many. What was copied for them is thrown away."""
    places = leaving(find_moves(layout.cluster), broker_id)
    if places:
        refused = submit_moves(layout.cluster, dict.fromkeys(places))
        still = [place for place in refused if place in find_moves(layout.cluster)]
        if still:
            raise CommandError(f"{len(still)} moves were not cancelled: {refused[still[0]]}")
        unthrottle(layout, sorted({name for name, _ in places}))
    return len(places)
