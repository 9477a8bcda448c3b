"""What clients of a cluster did and saw, as plain data.

A send is noted before it is sent, and its outcome when it is known: what a kill leaves open stays `UNKNOWN`,
and then the record may be there or not. A transaction that nobody asked to commit must never be seen; one
that was asked to and whose answer is missing is whole or absent.

Times are seconds of one clock for all clients. Values are unique in a history, so that a value read leads to
its send.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

Place = tuple[str, int]
"""Topic and partition."""

Outcome = Literal["acknowledged", "failed", "unknown"]
ACKNOWLEDGED: Outcome = "acknowledged"
FAILED: Outcome = "failed"
"""Refused for good: it was not made, and cannot be made any more."""
UNKNOWN: Outcome = "unknown"


@dataclass(slots=True)
class Send:
    """One record handed to a producer. `producer` is one life of one client; `number` rises in it."""

    producer: str
    number: int
    place: Place
    value: str
    invoked_s: float = 0.0
    outcome: Outcome = UNKNOWN
    offset: int | None = None
    """The acknowledged offset; None also where the producer is told none (acks=0)."""
    ended_s: float = math.inf
    acks: int = -1
    ordered: bool = True
    """The producer promises order: idempotent, or one request in flight."""
    once: bool = True
    """It cannot be there twice: idempotent, or never sent again."""
    transaction: int | None = None
    """The number of the producer's transaction."""
    appends_max: int | None = None
    """Where it is not `once`: how often it was sent without being refused before the append."""


@dataclass(slots=True)
class Transaction:
    """One transaction of a producer. `commit`: what its end was asked to be; None: it was never asked for."""

    producer: str
    number: int
    commit: bool | None = None
    outcome: Outcome = UNKNOWN
    """Of the request to end it."""

    @property
    def must_be_seen(self) -> bool:
        return self.commit is True and self.outcome == ACKNOWLEDGED

    @property
    def must_not_be_seen(self) -> bool:
        return not self.commit or self.outcome == FAILED


@dataclass(slots=True)
class Poll:
    """One answer that a consumer got for one partition."""

    consumer: str
    place: Place
    records: list[tuple[int, str]]
    """Offsets and values."""
    position: int
    """Where the consumer goes on: behind the last record, or behind what it was not shown."""
    at_s: float = 0.0
    committed: bool = True
    """read_committed."""
    began: int | None = None
    """The position before this poll, where it is another than after the last one: the first poll of an
    assignment, or a seek."""


@dataclass(slots=True)
class Commit:
    """A group's offset for a partition, as one member committed it (alone or in a transaction)."""

    group: str
    place: Place
    offset: int
    invoked_s: float
    outcome: Outcome = UNKNOWN
    ended_s: float = math.inf


@dataclass(slots=True)
class Resume:
    """Where a member found its group to stand; -1 where nothing was committed."""

    group: str
    place: Place
    offset: int
    invoked_s: float
    ended_s: float


@dataclass(slots=True)
class Trim:
    """Records of a partition below `offset` were deleted, or were asked to be (DeleteRecords)."""

    place: Place
    offset: int
    invoked_s: float
    outcome: Outcome = UNKNOWN
    ended_s: float = math.inf


@dataclass(slots=True)
class Fault:
    """What was done to the cluster. `bit`: somebody noticed (a leader changed, a connection broke, a request
    had to be repeated); a fault that nobody noticed proves nothing."""

    name: str
    began_s: float
    ended_s: float = math.inf
    bit: bool = False


@dataclass(slots=True)
class History:
    """Everything, in the order in which it was noted."""

    sends: list[Send] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    trims: list[Trim] = field(default_factory=list)
    commits_rise: bool = False
    """No member goes back by itself: what a group commits later is not less."""
    final: dict[Place, list[tuple[int, str]]] = field(default_factory=dict)
    """The reading of everything with read_committed, after all was healed: offsets and values."""
    final_ends: dict[Place, int] = field(default_factory=dict)
    """How far that reading got in each partition."""

    def trimmed_to(self, place: Place) -> int:
        """Below which offset of a partition records may have been deleted."""
        return max(
            (one.offset for one in self.trims if one.place == place and one.outcome != FAILED), default=0
        )
