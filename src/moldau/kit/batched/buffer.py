"""What waits in memory: a bounded queue that blocks, raises or drops when it is full, as told.

What is being sent counts until it is sent, so the bound holds for all that the process would lose.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from moldau.kit.sending import Outgoing

BLOCK, RAISE, DROP_NEW, DROP_OLD = "block", "raise", "drop_new", "drop_old"
WHEN_FULL = (BLOCK, RAISE, DROP_NEW, DROP_OLD)

Drop = Callable[[Outgoing, str], None]
"""Called for each record that is dropped, with the reason."""


def never() -> bool:
    """Nobody gives up."""
    return False


class BatchFull(Exception):
    """The queue is full, and `full` is "raise"."""


class Closed(Exception):
    """The buffer is being emptied for good: put the records into the next one."""


class Buffer(Protocol):
    """Where records wait."""

    def try_put(self, records: Sequence[Outgoing]) -> bool:
        """Put records, or do as told when it is full; False if that is to wait (`put`)."""

    def put(self, records: Sequence[Outgoing], given_up: Callable[[], bool] = never) -> None:
        """Put records; waits while it is full, if told so, until given up. Raises BatchFull, Closed,
        SpoolError, OSError.
        """

    def take(self, size: int, seconds: float) -> list[Outgoing]:
        """The next batch: `size` records, or what there is `seconds` after the first; all when closing.
        Empty when closed and empty.
        """

    def done(self, count: int) -> None:
        """The first `count` records of the last batch need not be kept."""

    def keep(self) -> None:
        """Called again and again while a batch is on its way: bring what waits to the disk once a second."""

    def waiting(self) -> int:
        """How many records are not done."""

    def closing(self) -> None:
        """No more records come; `take` waits no more."""

    def close(self) -> None:
        """Release what is held, after the last `take`."""


class MemoryBuffer:
    """A `Buffer` in memory, of at most `capacity` records."""

    def __init__(self, capacity: int, when_full: str, drop: Drop) -> None:
        self._capacity = capacity
        self._when_full = when_full
        self._drop = drop
        self._records: deque[Outgoing] = deque()
        self._first_seconds = 0.0  # when the oldest that is not in a batch came
        self._taken = 0
        self._closing = False
        self._changed = threading.Condition()

    def try_put(self, records: Sequence[Outgoing]) -> bool:
        dropped: list[Outgoing] = []
        with self._changed:
            if self._closing:
                raise Closed
            for index, record in enumerate(records):
                if len(self._records) >= self._capacity:
                    if self._when_full == BLOCK and not index:
                        return False
                    if self._when_full == BLOCK:
                        pass  # one call's records stay together, a little beyond the bound
                    elif self._when_full == RAISE and not index:
                        raise BatchFull(
                            f"{self._capacity} records wait already: the broker is away or too slow"
                        )
                    elif self._when_full == DROP_OLD and len(self._records) > self._taken:
                        dropped.append(self._records[self._taken])
                        del self._records[self._taken]
                    elif self._when_full in (DROP_NEW, DROP_OLD):
                        dropped.append(record)
                        continue
                if len(self._records) == self._taken:
                    self._first_seconds = time.monotonic()
                self._records.append(record)
            self._changed.notify_all()
        for record in dropped:
            self._drop(record, "full")
        return True

    def put(self, records: Sequence[Outgoing], given_up: Callable[[], bool] = never) -> None:
        while not self.try_put(records) and not given_up():
            with self._changed:
                self._changed.wait(0.5)

    def take(self, size: int, seconds: float) -> list[Outgoing]:
        with self._changed:
            while len(self._records) < size and not self._closing:
                left = self._first_seconds + seconds - time.monotonic() if self._records else 1.0
                if left <= 0:
                    break
                self._changed.wait(left)
            self._taken = min(size, len(self._records))
            self._first_seconds = time.monotonic()
            return [self._records[index] for index in range(self._taken)]

    def done(self, count: int) -> None:
        with self._changed:
            for _ in range(count):
                self._records.popleft()
            self._taken -= count
            self._changed.notify_all()

    def keep(self) -> None:
        pass

    def waiting(self) -> int:
        return len(self._records)

    def closing(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def close(self) -> None:
        pass
