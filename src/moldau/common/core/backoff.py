"""Pauses between attempts: they double, and each is a little longer or shorter by chance: clients that failed
together do not come back together.
"""

from collections.abc import Callable, Iterator

JITTER = 0.2


def pauses(first_seconds: float, longest_seconds: float, chance: Callable[[], float]) -> Iterator[float]:
    """Seconds before the second attempt, the third and so on, without end. `longest_seconds` is before the
    jitter, a share of each pause. `chance` gives numbers from 0 to 1, as `random.random`.
    """
    pause = first_seconds
    while True:
        yield pause * (1 + JITTER * (2 * chance() - 1))
        pause = max(pause, min(2 * pause, longest_seconds))


def even_pauses(first_seconds: float, longest_seconds: float) -> Iterator[float]:
    """The same without chance: their sum can be told beforehand."""
    return pauses(first_seconds, longest_seconds, lambda: 0.5)
