"""One limit for the unsent responses of all connections: `moldau.queued.max.response.bytes`.

A connection that does not read gets no further answers, but those it has stay in memory, and one Fetch may
ask for 55 MB. Up to 64 KiB a connection are not counted; beyond, what waits in its transport and what is
parked behind an unfinished answer is. What that leads to:

    below half the limit    answers to Fetch get smaller, the more is unsent (a quarter of what is left to
                            half the limit, at most 8 MiB; the first batch is always whole)
    from half the limit on  connections that take next to nothing for ten seconds are closed
    at the limit            the slowest are closed at once, until an eighth is free

So clients that read do not wait for those that do not. Kafka holds one response a connection, and the kernel
copies records from the file (sendfile): it has no such limit, and needs none for Fetch.
"""

import logging
from typing import Protocol

from moldau.broker.handlers.parts.broker import ResponseRoom
from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers

log = logging.getLogger("moldau.server")

FETCH_BYTES_MAX = 8 * 1024 * 1024  # one answer, also while nothing is unsent: reading it holds the loop
FETCH_BYTES_MIN = 64 * 1024
_LOOK_EVERY_MS = 500
_PROGRESS_BYTES_MIN = 16 * 1024
_LOOKS_MAX = 20
_JUDGED_AFTER_MS = 1_000  # a connection's rate says nothing before


class SlowReader(Protocol):
    """The part of a connection that is used here."""

    def unsent_bytes(self) -> int:
        """Answers that were made and not sent, in bytes."""

    def held_too_long(self, sentence: str) -> None:
        """Close the connection and drop what is unsent; the message says why."""


class _Unsent:
    __slots__ = ("began_ms", "looks", "size_bytes", "taken_bytes", "taken_seen_bytes")

    def __init__(self, began_ms: float) -> None:
        self.began_ms = began_ms
        self.size_bytes = 0
        self.taken_bytes = 0  # since `began_ms`
        self.taken_seen_bytes = 0  # of these, at the last look
        self.looks = 0  # without progress


class ResponseMemory:
    """Counts unsent bytes, limits the size of Fetch responses, closes the slowest connections."""

    def __init__(self, limit_bytes: int, room: ResponseRoom, timers: Timers, clock: Clock) -> None:
        """A limit of 0 or less means none."""
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.closed_count = 0
        self._room = room
        self._timers = timers
        self._clock = clock
        self._unsent: dict[SlowReader, _Unsent] = {}
        self._timer: TimerHandle | None = None
        self._full_until_ms = float("-inf")
        self._changed()

    def count(self, connection: SlowReader, size_bytes: int) -> None:
        """The connection has this many bytes unsent now; 0: it has caught up, or is gone."""
        entry = self._unsent.get(connection)
        if entry is None:
            if not size_bytes:
                return
            entry = self._unsent[connection] = _Unsent(self._clock.monotonic_ms())
        self._set(entry, size_bytes)
        if not size_bytes:
            del self._unsent[connection]
        if 0 < self.limit_bytes < self.used_bytes:
            self._close_slowest()
        self._changed()

    @property
    def connection_count(self) -> int:
        """How many connections have answers unsent that count."""
        return len(self._unsent)

    def full_within(self, duration_ms: float) -> bool:
        """Whether more than half the limit is used, or was in the last `duration_ms` milliseconds."""
        return self._timer is not None or self._clock.monotonic_ms() - self._full_until_ms < duration_ms

    def _set(self, entry: _Unsent, size_bytes: int) -> None:
        entry.taken_bytes += max(0, entry.size_bytes - size_bytes)
        self.used_bytes += size_bytes - entry.size_bytes
        entry.size_bytes = size_bytes

    def _changed(self) -> None:
        if self.limit_bytes <= 0:
            self._room.fetch_bytes = FETCH_BYTES_MAX
            return
        left_bytes = self.limit_bytes // 2 - self.used_bytes
        self._room.fetch_bytes = max(FETCH_BYTES_MIN, min(FETCH_BYTES_MAX, left_bytes // 4))
        if left_bytes >= 0:
            self.stop()
        elif self._timer is None:
            for entry in self._unsent.values():
                entry.taken_seen_bytes, entry.looks = entry.taken_bytes, 0
            self._timer = self._timers.call_later(_LOOK_EVERY_MS, self._look)

    # Closing slow readers

    def _refresh(self) -> None:
        for connection, entry in self._unsent.items():
            self._set(entry, connection.unsent_bytes())

    def _look(self) -> None:
        """While more than half is used: close connections that take nothing."""
        self._timer = self._timers.call_later(_LOOK_EVERY_MS, self._look)
        self._refresh()
        for connection, entry in list(self._unsent.items()):
            taken_bytes = entry.taken_bytes - entry.taken_seen_bytes
            entry.taken_seen_bytes = entry.taken_bytes
            entry.looks = 0 if taken_bytes >= _PROGRESS_BYTES_MIN else entry.looks + 1
            if entry.looks >= _LOOKS_MAX:
                self._close(connection, entry)
        self._changed()

    def _close_slowest(self) -> None:
        """Free an eighth of the limit: first the connections that have taken the least a second, then those
        with the most."""
        self._refresh()
        now_ms = self._clock.monotonic_ms()

        def slowness(item: tuple[SlowReader, _Unsent]) -> tuple[int, float, float]:
            entry = item[1]
            age_ms = now_ms - entry.began_ms
            if age_ms < _JUDGED_AFTER_MS:
                return (1, -entry.size_bytes, entry.began_ms)
            return (0, entry.taken_bytes / age_ms, entry.began_ms)

        goal_bytes = self.limit_bytes - self.limit_bytes // 8
        for connection, entry in sorted(self._unsent.items(), key=slowness):
            if self.used_bytes <= goal_bytes:
                break
            self._close(connection, entry)

    def _close(self, connection: SlowReader, entry: _Unsent) -> None:
        del self._unsent[connection]
        self.used_bytes -= entry.size_bytes
        self.closed_count += 1
        age_s = (self._clock.monotonic_ms() - entry.began_ms) / 1000
        connection.held_too_long(
            f"it has not taken {entry.size_bytes:,} bytes of answers ({entry.taken_bytes:,} bytes in "
            f"{age_s:.1f} s), and moldau.queued.max.response.bytes={self.limit_bytes} is used up"
        )

    def stop(self) -> None:
        """No more timers."""
        if self._timer is not None:
            self._full_until_ms = self._clock.monotonic_ms()
            self._timer.cancel()
            self._timer = None
