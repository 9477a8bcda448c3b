"""Whether a connection reads: it pauses while its answers are not taken, or the intake is full."""

from __future__ import annotations

import asyncio


class Reading:
    """The reasons of one connection; it reads while there is none."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reasons: set[str] = set()

    def begin(self, transport: asyncio.Transport) -> None:
        """The connection was made, and reads."""
        self._transport = transport

    def end(self) -> None:
        """The connection is gone."""
        self._transport = None

    def stop(self, reason: str) -> None:
        """Read no more until `go_on` for this reason and all others."""
        if self._transport is not None and not self._reasons:
            self._transport.pause_reading()
        self._reasons.add(reason)

    def go_on(self, reason: str) -> None:
        """The reason is gone."""
        if reason in self._reasons:
            self._reasons.discard(reason)
            if self._transport is not None and not self._reasons and not self._transport.is_closing():
                self._transport.resume_reading()
