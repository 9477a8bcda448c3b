"""Who is killed when: a schedule from the seed, carried out as the clients' progress reaches its moments.

Progress is a number that only the clients' doing moves (lines in their ledgers, committed offsets). The last
kill lies well before the end, so that there is always something left to go wrong afterwards.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

BROKER, STARTING, CHILD, CLIENT = "broker", "broker while starting", "child", "client"
STUCK_AFTER_S = 60.0


class Kill(NamedTuple):
    """At this progress; `detail` in [0, 1) says which client or child, or how far into the start."""

    at: int
    who: str
    detail: float


def schedule(draw: random.Random, count: int, end: int, weights: Mapping[str, float]) -> list[Kill]:
    """So many kills, spread over the first nine tenths of `end`; the first is always the broker's."""
    moments = sorted(draw.randrange(end // 20, end * 9 // 10) for _ in range(count))
    names, shares = list(weights), list(weights.values())
    drawn = [draw.choices(names, shares)[0] for _ in moments]
    return [Kill(at, who, draw.random()) for at, who in zip(moments, [BROKER, *drawn[1:]], strict=True)]


class Stuck(Exception):
    """Nothing moved for too long."""


def carry_out(
    kills: Sequence[Kill],
    progress: Callable[[], int],
    strike: Callable[[Kill], None],
    finished: Callable[[], bool],
    *,
    stuck_after_s: float = STUCK_AFTER_S,
) -> int:
    """Strike each time the moment has come, until all is finished; the number of kills carried out."""
    waiting = list(kills)
    last_progress, moved_at = -1, time.monotonic()
    while not finished():
        now = progress()
        if now != last_progress:
            last_progress, moved_at = now, time.monotonic()
        if time.monotonic() - moved_at > stuck_after_s:
            raise Stuck(
                f"no progress beyond {now} for {stuck_after_s:.0f} s, with {len(waiting)} kills to come"
            )
        if waiting and now >= waiting[0].at:
            strike(waiting.pop(0))
            moved_at = time.monotonic()
        time.sleep(0.005)
    return len(kills) - len(waiting)
