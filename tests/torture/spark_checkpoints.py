"""What a Spark driver notes about its batches, looked at and changed from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path


class Checkpoints:
    """The checkpoints of both queries, looked at from outside: numbered files in `offsets` and `commits`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def at_rest(self) -> bool:
        """Whether every batch that was begun is noted as done."""
        newest = self._newest("offsets")
        return bool(newest) and newest == self._newest("commits")

    def any_at_rest(self) -> bool:
        """Whether a query is between two batches."""
        begun, done = self._newest("offsets"), self._newest("commits")
        return any(number >= 0 and number == done.get(query) for query, number in begun.items())

    def forget_last_commits(self) -> dict[Path, int]:
        """As if the driver had died just before it noted the newest batch of each query as done.

        Not of a query that has begun the next batch: no driver could have, without that note. Returns what
        was forgotten.
        """
        begun = self._newest("offsets")
        forgotten = {
            query: number
            for query, number in self._newest("commits").items()
            if number >= 0 and number == begun.get(query)
        }
        for query, number in forgotten.items():
            for name in (f"{number}", f".{number}.crc"):
                (query / "commits" / name).unlink(missing_ok=True)
        return forgotten

    def have(self, commits: Mapping[Path, int]) -> bool:
        """Whether these batches are noted as done."""
        newest = self._newest("commits")
        return all(newest.get(query, -1) >= number for query, number in commits.items())

    def _newest(self, kind: str) -> dict[Path, int]:
        found = {}
        for folder in self._folder.rglob(kind):
            numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
            found[folder.parent] = max(numbers, default=-1)
        return found


def until(true: Callable[[], bool], timeout_s: float, pause_s: float = 0.05) -> bool:
    """Wait until it is true; False if it has not become true in time."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True
