"""One limit for the request bytes of all connections: `queued.max.request.bytes`.

A frame of up to `SMALL_BYTES` costs its connection's own small buffer and is not counted. A larger one asks
for every enlargement of its buffer. While the limit is reached the connection is not read from; it goes on
in the order in which the frames began:

    frames, oldest first:   | held 16 MiB | held 1 MiB | waits | held 2 MiB | waits |
                              always goes on

No deadlock: the oldest frame gets its memory in any case, so that frames that together fill the limit are
completed one after the other; the limit is exceeded by one frame at most. A client that stalls would block
the others, so while any frame waits, connections that make no progress are closed. Frames behind an
unfinished answer of their own connection are counted too, and large requests that are being handled.

As in Kafka, bytes are counted over all listeners. Other than there, a claimed length alone reserves nothing.
"""

import heapq
import itertools
import logging
from collections import OrderedDict
from functools import partial
from typing import Protocol

from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers

log = logging.getLogger("moldau.server")

SMALL_BYTES = 64 * 1024
_LOOK_EVERY_MS = 500
_PROGRESS_BYTES_MIN = 16 * 1024  # less than that between two looks is no progress
_LOOKS_SENDING_MAX = 4  # so many without progress, 2 s, for a client that owes the rest of its frame
_LOOKS_KEPT_MAX = 60  # 30 s for one whose frames wait behind answers that are not there or not read


class FrameHolder(Protocol):
    """The part of a connection that is used here."""

    @property
    def received_bytes(self) -> int:
        """How much of its frames is here."""

    def memory_granted(self, size_bytes: int) -> None:
        """The enlargement that was asked for is granted."""

    def held_too_long(self, sentence: str) -> None:
        """Close the connection and release its memory; the message says why."""


class _Frame:
    __slots__ = ("connection", "held_bytes", "looks", "order", "seen_end", "wanted_bytes")

    def __init__(self, connection: FrameHolder, order: int) -> None:
        self.connection = connection
        self.order = order
        self.held_bytes = 0
        self.wanted_bytes = 0  # not 0: waits for it
        self.seen_end = 0
        self.looks = 0


class RequestMemory:
    """Grants buffers for large frames, in the frames' order once the limit is reached."""

    def __init__(self, limit_bytes: int, timers: Timers, clock: Clock) -> None:
        """A limit of 0 or less means none."""
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.closed_count = 0
        self._timers = timers
        self._clock = clock
        self._order = itertools.count()
        self._frames: OrderedDict[FrameHolder, _Frame] = OrderedDict()  # that are being received, by age
        self._kept: dict[FrameHolder, _Frame] = {}  # that wait behind earlier answers of their connection
        self._waiting: list[tuple[int, _Frame]] = []  # a heap; who is gone or granted has wanted_bytes == 0
        self._timer: TimerHandle | None = None
        self._depleted_since_ms: float | None = None
        self._depleted_ms = 0.0
        self._depleted_until_ms = float("-inf")

    def ask(self, connection: FrameHolder, size_bytes: int) -> bool:
        """Hold `size_bytes` in all for the frame of this connection; False: wait for `memory_granted`."""
        frame = self._frame(connection)
        if self._fits(frame, size_bytes):
            self._hold(frame, size_bytes)
            return True
        frame.wanted_bytes = size_bytes
        heapq.heappush(self._waiting, (frame.order, frame))
        if self._depleted_since_ms is None:
            self._depleted_since_ms = self._clock.monotonic_ms()
            for each in (*self._frames.values(), *self._kept.values()):
                each.seen_end, each.looks = each.connection.received_bytes, 0
            self._timer = self._timers.call_later(_LOOK_EVERY_MS, self._look)
        return False

    def keep(self, connection: FrameHolder, size_bytes: int) -> None:
        """Count bytes that have come already and must be kept, whatever the limit."""
        frame = self._frames.get(connection)
        if frame is None:
            frame = self._kept[connection] = _Frame(connection, next(self._order))
        self._hold(frame, size_bytes)

    def give_back(self, connection: FrameHolder) -> None:
        """The frame is handled, or its connection gone."""
        frame = self._frames.pop(connection, None) or self._kept.pop(connection, None)
        if frame is not None:
            self.used_bytes -= frame.held_bytes
            frame.wanted_bytes = 0
            self._serve()

    def begin_handling(self, size_bytes: int) -> None:
        """A large request is being handled, and is kept for that."""
        self.used_bytes += size_bytes

    def end_handling(self, size_bytes: int) -> None:
        """The large request is answered; its bytes are free."""
        self.used_bytes -= size_bytes
        self._serve()

    # What monitoring reads

    @property
    def depleted_ms(self) -> float:
        """How long, in all, frames have waited for memory."""
        since = self._depleted_since_ms
        return self._depleted_ms + (0.0 if since is None else self._clock.monotonic_ms() - since)

    @property
    def waiting_count(self) -> int:
        """How many connections wait now."""
        return sum(1 for _, frame in self._waiting if frame.wanted_bytes)

    def depleted_within(self, duration_ms: float) -> bool:
        """Whether a frame waits, or has waited in the last `duration_ms` milliseconds."""
        if self._depleted_since_ms is not None:
            return True
        return self._clock.monotonic_ms() - self._depleted_until_ms < duration_ms

    # Granting

    def _frame(self, connection: FrameHolder) -> _Frame:
        frame = self._frames.get(connection)
        if frame is None:
            frame = self._frames[connection] = _Frame(connection, next(self._order))
            kept = self._kept.pop(connection, None)
            if kept is not None:  # its turn has come, and the frame goes on
                frame.held_bytes = kept.held_bytes
        return frame

    def _hold(self, frame: _Frame, size_bytes: int) -> None:
        self.used_bytes += size_bytes - frame.held_bytes
        frame.held_bytes = size_bytes

    def _fits(self, frame: _Frame, size_bytes: int) -> bool:
        if self.limit_bytes <= 0 or next(iter(self._frames.values())) is frame:
            return True
        if self.used_bytes + size_bytes - frame.held_bytes > self.limit_bytes:
            return False
        waiting = self._first_waiting()
        return waiting is None or waiting.order >= frame.order

    def _first_waiting(self) -> _Frame | None:
        waiting = self._waiting
        while waiting and not waiting[0][1].wanted_bytes:
            heapq.heappop(waiting)
        return waiting[0][1] if waiting else None

    def _serve(self) -> None:
        """Grant what fits now, the oldest frame first; a younger one never overtakes an older one."""
        while (frame := self._first_waiting()) is not None and self._fits(frame, frame.wanted_bytes):
            size_bytes, frame.wanted_bytes = frame.wanted_bytes, 0
            frame.seen_end, frame.looks = frame.connection.received_bytes, 0
            self._hold(frame, size_bytes)
            frame.connection.memory_granted(size_bytes)
        if frame is None and self._depleted_since_ms is not None:
            self._depleted_until_ms = self._clock.monotonic_ms()
            self._depleted_ms += self._depleted_until_ms - self._depleted_since_ms
            self._depleted_since_ms = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    # Closing connections that block others

    def _look(self) -> None:
        """While somebody waits: close connections that hold memory and make no progress."""
        self._timer = self._timers.call_later(_LOOK_EVERY_MS, self._look)
        closed_count = 0
        for frame in [*self._frames.values(), *self._kept.values()]:
            if frame.wanted_bytes or not frame.held_bytes:
                continue
            end = frame.connection.received_bytes
            frame.looks = 0 if end - frame.seen_end >= _PROGRESS_BYTES_MIN else frame.looks + 1
            frame.seen_end = end
            kept = frame.connection in self._kept
            if frame.looks >= (_LOOKS_KEPT_MAX if kept else _LOOKS_SENDING_MAX):
                # One a millisecond: to give large buffers back to the system takes some time for each.
                self._timers.call_later(closed_count, partial(self._close, frame, kept))
                closed_count += 1

    def _close(self, frame: _Frame, kept: bool) -> None:
        if (self._kept if kept else self._frames).get(frame.connection) is not frame:
            return  # it has ended meanwhile
        self.closed_count += 1
        what = "let requests wait behind earlier ones" if kept else "made no progress"
        held_bytes = frame.connection.received_bytes
        frame.connection.held_too_long(
            f"it {what} for {frame.looks * _LOOK_EVERY_MS / 1000:.0f} s, with {held_bytes:,} bytes "
            f"of a request here, while queued.max.request.bytes={self.limit_bytes} was used up"
        )

    def stop(self) -> None:
        """No more timers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
