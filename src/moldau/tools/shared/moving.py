"""Carries out a plan of moves: some at a time, throttled, and waits for them with progress.

    portion ──> throttle ──> submit ──> under way ──> ended ──> next portion ──> throttle removed

The cluster knows the moves under way, not this command: who interrupts it stops neither them nor the
throttle, and the same command, given again, goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.client.admin.reassignments import find_moves, submit_moves, throttle, unthrottle
from moldau.tools.shared.errors import CommandError

if TYPE_CHECKING:
    from moldau.client.admin.layout import Layout, Place

POLL_SECONDS = 0.2
REFUSALS_SHOWN = 3


class Moving:
    """One plan: new replicas by partition. `report` is told how many partitions are left; `replicas` gives
    those that partitions have, as new as the caller wants them: what is refused because its partition was
    deleted meanwhile is no error.
    """

    def __init__(
        self,
        layout: Layout,
        targets: Mapping[Place, Sequence[int]],
        *,
        report: Callable[[int], None] = lambda left: None,
        rate_bytes_per_second: int | None = None,
        at_once: int | None = None,
        replicas: Callable[[], Mapping[Place, Sequence[int]]] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`at_once`: how many partitions move at a time; None: all."""
        self._layout = layout
        self._targets = dict(targets)
        self._report = report
        self._rate = rate_bytes_per_second
        self._at_once = at_once or max(1, len(targets))
        self._replicas = replicas or self._replicas_of_routing
        self._sleep = sleep

    def start(self) -> None:
        """Throttle and submit everything; CommandError names what was refused."""
        self._submit(list(self._targets))

    def run(self) -> None:
        """Move everything and wait for it; the throttle is removed in the end."""
        places = list(self._targets)
        for start in range(0, len(places), self._at_once):
            portion = places[start : start + self._at_once]
            self._report(len(places) - start)
            self._submit(portion)
            self.wait(portion, later=len(places) - start - len(portion))
        self.finish()

    def wait(self, places: Sequence[Place] | None = None, later: int = 0) -> None:
        """Wait until none of these (None: of the plan's) is under way any more."""
        wanted = set(self._targets if places is None else places)
        while left := len(wanted & find_moves(self._layout.cluster).keys()):
            self._report(later + left)
            self._sleep(POLL_SECONDS)
        self._report(later)

    def finish(self) -> None:
        """Remove the throttle, if there was one."""
        if self._rate is not None:
            unthrottle(self._layout, sorted({name for name, _ in self._targets}))

    def _submit(self, places: Sequence[Place]) -> None:
        targets = {place: self._targets[place] for place in places}
        if self._rate is not None:
            known = self._replicas()
            moves = {
                place: (known[place], [one for one in to if one not in known[place]])
                for place, to in targets.items()
                if place in known
            }
            throttle(self._layout, self._rate, moves)
        refused = submit_moves(self._layout.cluster, targets)
        known = self._replicas() if refused else {}
        reasons = [
            f"{name}-{index}: {why}" for (name, index), why in refused.items() if (name, index) in known
        ]
        if reasons:
            more = f" (and {len(reasons) - REFUSALS_SHOWN} more)" if len(reasons) > REFUSALS_SHOWN else ""
            raise CommandError(f"not moved: {'; '.join(reasons[:REFUSALS_SHOWN])}{more}")

    def _replicas_of_routing(self) -> Mapping[Place, Sequence[int]]:
        return self._layout.replicas
