"""Records that are gone before they were read: an error or a warning, as `failOnDataLoss` says."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark_moldau.errors import DataLossError

MESSAGES_MAX = 1000


def to_stderr(message: str) -> None:
    """A line for whoever watches the query: Spark passes on what its Python processes write there."""
    print(f"moldau: {message}", file=sys.stderr, flush=True)


class LossReport:
    """Raises or tells what was lost; tells the same thing only once, because a stream asks every few ms."""

    def __init__(self, fail: bool, tell: Callable[[str], None] = to_stderr) -> None:
        self._fail = fail
        self._tell = tell
        self._told: set[str] = set()

    def report(self, what: str) -> None:
        """Say that records are lost; raises DataLossError if the query must not go on."""
        if self._fail:
            raise DataLossError(f"{what}. The option failOnDataLoss=false lets the query go on without them")
        if what not in self._told and len(self._told) < MESSAGES_MAX:
            self._told.add(what)
            self._tell(f"{what}; the query goes on without them (failOnDataLoss=false)")
