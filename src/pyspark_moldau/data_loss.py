"""Records deleted before they were read: an error or a warning, by `failOnDataLoss`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark_moldau.errors import DataLossError

MESSAGES_MAX = 1000


def to_stderr(message: str) -> None:
    """Print a line for the user: Spark passes on the standard error of its Python processes."""
    print(f"moldau: {message}", file=sys.stderr, flush=True)


class LossReport:
    """Raises or prints what was lost; prints the same only once, since a stream checks every few ms."""

    def __init__(self, fail: bool, tell: Callable[[str], None] = to_stderr) -> None:
        self._fail = fail
        self._tell = tell
        self._told: set[str] = set()

    def report(self, what: str) -> None:
        """Report lost records. DataLossError if the query must not go on."""
        if self._fail:
            raise DataLossError(f"{what}. The option failOnDataLoss=false lets the query go on without them")
        if what not in self._told and len(self._told) < MESSAGES_MAX:
            self._told.add(what)
            self._tell(f"{what}; the query goes on without them (failOnDataLoss=false)")
