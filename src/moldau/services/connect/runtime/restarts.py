"""When a failed task starts again: after a second, then twice as long each time, up to five minutes.

A task that ran well for long begins anew with the first delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Restarts:
    """Decides; a pure machine over the milliseconds that it is told."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings`: those of RESTART_ROWS."""
        self._enabled = bool(settings["moldau.restart.enable"])
        self._first_ms = int(settings["moldau.restart.delay.ms"])
        self._max_ms = int(settings["moldau.restart.delay.max.ms"])
        self._reset_ms = int(settings["moldau.restart.reset.ms"])
        self._failures = 0

    def failed(self, ran_ms: float) -> int | None:
        """In how many ms to start again, after a run of that length; None: not at all."""
        if not self._enabled:
            return None
        if ran_ms >= self._reset_ms:
            self._failures = 0
        delay = min(self._first_ms * 2 ** min(self._failures, 40), self._max_ms)
        self._failures += 1
        return int(delay)
