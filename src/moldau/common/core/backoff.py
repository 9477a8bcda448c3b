"""Pauses between attempts: they double, and each is a little longer or shorter by chance: clients that failed
together do not come back together.
"""

import random
from collections.abc import Iterator

JITTER = 0.2
_chance = random.Random()


def pauses(
    first_seconds: float,
    longest_seconds: float,
    *,
    jitter: float = JITTER,
    source: random.Random = _chance,
) -> Iterator[float]:
    """Seconds before the second attempt, the third and so on, without end. `longest_seconds` is before the
    jitter, a share of each pause.
    """
    pause = first_seconds
    while True:
        yield pause * (1 + jitter * (2 * source.random() - 1))
        pause = max(pause, min(2 * pause, longest_seconds))
