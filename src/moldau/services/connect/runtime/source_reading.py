"""One partition of a source's task: its iterator, where it stands, and when to ask it again.

An iterator that has nothing is asked again after 10 ms, then after twice as long each time, up to half a
second; one that waits by itself is asked at once, because it keeps its own pace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moldau.common.core.clock import Clock
from moldau.connect.source import Read, Source
from moldau.services.connect.runtime.problems import Pauses

_FIRST_MS = 10.0
_LONGEST_MS = 500.0
_OWN_PACE_MS = 20.0


class Reading:
    """See the module."""

    def __init__(
        self, source: Source, partition: Mapping[str, Any], offset: Mapping[str, Any] | None, clock: Clock
    ) -> None:
        self.partition = partition
        self.offset = offset
        """Behind what was read."""
        self.committed = offset
        """Behind what is committed in Kafka."""
        self.due_ms = 0.0
        self.pauses: Pauses | None = None
        """While reading fails."""
        self._source = source
        self._clock = clock
        self._iterator: Iterator[Read | None] | None = None
        self._pause_ms = _FIRST_MS

    @property
    def is_dirty(self) -> bool:
        """Whether something was read that is not committed."""
        return self.offset is not self.committed

    def next(self) -> Read | None:
        """What comes next; None: nothing now. What the source raises."""
        began_ms = self._clock.monotonic_ms()
        if self._iterator is None:
            self._iterator = iter(self._source.read(self.partition, self.offset))
        try:
            read = next(self._iterator)
        except StopIteration:
            self._iterator = read = None
        except BaseException:
            self._iterator = None
            raise
        now_ms = self._clock.monotonic_ms()
        if read is not None:
            self.due_ms, self._pause_ms = now_ms, _FIRST_MS
        elif now_ms - began_ms >= _OWN_PACE_MS and self._iterator is not None:
            self.due_ms = now_ms
        else:
            self.due_ms = now_ms + self._pause_ms
            self._pause_ms = min(self._pause_ms * 2, _LONGEST_MS)
        return read

    def close(self) -> None:
        """Give the iterator up; the next one begins at `offset`."""
        iterator, self._iterator = self._iterator, None
        close = getattr(iterator, "close", None)
        if close is not None:
            close()

    def go_back(self) -> None:
        """Read again from what is committed."""
        self.close()
        self.offset = self.committed
