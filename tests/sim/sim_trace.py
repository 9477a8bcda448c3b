"""What happened in a run, in order: virtual time, who, what. Two runs of one seed have the same digest.

Every callback, network segment, file operation and worker is an event, so that a digest tells apart runs that
differ in anything at all. Only the last events are kept as text, for whoever reads a failure. Nothing that
differs from one interpreter to the next may enter an event: no address, no id, no order of a set.
"""

from __future__ import annotations

import hashlib
from collections import deque

KEPT_EVENTS = 400


class Trace:
    """A running digest, and the last events."""

    def __init__(self) -> None:
        self.count = 0
        self.last: deque[str] = deque(maxlen=KEPT_EVENTS)
        self.whole: list[str] | None = None
        """Every event, where a test wants to compare two runs line by line."""
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, seconds: float, who: str, what: str) -> None:
        """Note one event."""
        line = f"{seconds:.6f} {who}: {what}"
        self.count += 1
        self.last.append(line)
        if self.whole is not None:
            self.whole.append(line)
        self._hash.update(line.encode())
        self._hash.update(b"\n")

    def digest(self) -> str:
        """Equal exactly for equal histories."""
        return f"{self.count}:{self._hash.hexdigest()}"

    def tail(self, count: int = 40) -> str:
        """The last events as text."""
        return "\n".join(list(self.last)[-count:])
