"""What all stream connections share: how many there may be, and how much half-received input they may hold.

Memory is bounded over all of them: a connection that would take the sum of unfinished input over
`partial_bytes_max` is closed, and at `connections_max` the next one is refused. When the intake is full all
connections stop reading at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from moldau.kit.agent.counters import Counters
from moldau.kit.agent.intake import Intake
from moldau.kit.agent.settings import AgentSettings


class Connection(Protocol):
    """One client's connection, as the sum of them needs it."""

    @property
    def partial_since_seconds(self) -> float:
        """When unfinished input began to wait; infinity if there is none."""

    def pause(self) -> None:
        """Stop reading: the intake is full."""

    def resume(self) -> None:
        """Read again."""

    def close(self, why: str) -> None:
        """Answer with an error and close."""


class Connections:
    """The open connections of all listeners."""

    def __init__(self, settings: AgentSettings, intake: Intake, counters: Counters) -> None:
        self.settings = settings
        self.intake = intake
        self.counters = counters
        self.partial_bytes = 0
        self.status: Callable[[], dict[str, object]] = dict
        self._open: dict[Connection, None] = {}
        intake.on_full = self._pause
        intake.on_room = self._resume

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> bool:
        """Count a connection; False if there are too many."""
        if len(self._open) >= self.settings.connections_max:
            self.counters.connections_refused += 1
            return False
        self._open[connection] = None
        return True

    def remove(self, connection: Connection) -> None:
        """A connection is gone."""
        self._open.pop(connection, None)

    def may_hold(self, more_bytes: int) -> bool:
        """Whether a connection may hold so much more unfinished input; counts it then."""
        if more_bytes > 0 and self.partial_bytes + more_bytes > self.settings.partial_bytes_max:
            return False
        self.partial_bytes += more_bytes
        return True

    def _pause(self) -> None:
        for connection in list(self._open):
            connection.pause()

    def _resume(self) -> None:
        for connection in list(self._open):
            if not self.intake.has_room:
                return
            connection.resume()

    async def close_stalled(self) -> None:
        """Close connections whose unfinished input makes no progress; runs until cancelled."""
        limit_seconds = self.settings.idle_partial_seconds
        while True:
            await asyncio.sleep(limit_seconds / 4)
            oldest = time.monotonic() - limit_seconds
            for connection in list(self._open):
                if connection.partial_since_seconds < oldest:
                    connection.close(f"the line was not finished within {limit_seconds:g} s")

    def close_all(self, why: str) -> None:
        """Close every connection, at the agent's end."""
        for connection in list(self._open):
            connection.close(why)
