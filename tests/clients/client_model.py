"""What every client under test can do, in one vocabulary, so that a scenario is written once and run with
each.

A client produces records, reads topics from the beginning, and opens group members which poll by themselves
in the background; the scenario looks at a member's assignment and takes what it has read. What a client
cannot express stands in its `limits` (kcat, for instance, cannot choose a header per record in one run).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = tuple[tuple[str, bytes | None], ...]
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Message:
    """A record as a producer gives it; partition and timestamp are the client's choice where None."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def content(self) -> tuple[bytes | None, bytes | None, Headers]:
        """What must arrive unchanged whatever client reads it."""
        return (self.key, self.value, self.headers)


@dataclass(frozen=True, slots=True)
class Received:
    """A record as a consumer got it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = -1

    @property
    def content(self) -> tuple[bytes | None, bytes | None, Headers]:
        return (self.key, self.value, self.headers)


class Member(Protocol):
    """A consumer group member that polls in the background and commits what it has read."""

    def assignment(self) -> set[Place]:
        """The partitions that it owns now; raises what went wrong in the background."""

    def take(self) -> list[Received]:
        """What it has read since the last call."""

    def close(self) -> None:
        """Leave the group and stop."""


class Client(Protocol):
    """One client library, bound to one broker."""

    name: str
    codecs: tuple[str, ...]

    def produce(self, topic: str, messages: Sequence[Message], codec: str = "none") -> None:
        """Write and wait for all acknowledgements; raises when one fails."""

    def read(self, counts: Mapping[str, int]) -> dict[str, list[Received]]:
        """Read topics from the beginning until each has given so many records (or 20 seconds went by)."""

    def open_member(self, group: str, topics: Sequence[str], **config: str) -> Member:
        """Join a group."""

    def close(self) -> None:
        """Free what the client holds."""


Answer = TypeVar("Answer")


def eventually(probe: Callable[[], Answer], timeout_s: float = 20.0) -> Answer:
    """The probe's first true answer; fails with its last answer when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = probe()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"still {answer!r} after {timeout_s} s"
        time.sleep(0.02)
