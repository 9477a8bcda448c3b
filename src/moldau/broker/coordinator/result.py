"""What a coordinator decides: records to write, and the answers to give once they are committed.

An operation only decides. It returns a `Result`, and the shard does the rest: it replays and appends the
records, and releases the answers when everything that they depend on is committed.

Some callers cannot be answered by their own request: a member that joins waits for the others. Such a caller
is `Parked`, and a later result, perhaps of another client's request or of a timer, carries its answer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from moldau.broker.coordinator.markers import Marker

R = TypeVar("R")


class Producer(NamedTuple):
    """The producer whose transaction records belong to."""

    producer_id: int
    producer_epoch: int


class Parked(Generic[R]):
    """A caller that waits for its answer. Answering twice keeps the first answer, as a network connection
    would."""

    __slots__ = ("_future", "response")

    def __init__(self) -> None:
        self.response: R | None = None
        self._future: asyncio.Future[R] | None = None

    def answer(self, response: R) -> None:
        """Give the answer, unless there is one."""
        if self.response is None:
            self.response = response
            if self._future is not None and not self._future.done():
                self._future.set_result(response)

    def outcome(self) -> "R | asyncio.Future[R]":
        """The answer if it is there, else a future of it (which needs a running event loop)."""
        if self.response is not None:
            return self.response
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
        return self._future


class ParkedAnswer(NamedTuple):
    """The answer to a parked caller."""

    parked: Parked[Any]
    response: Any


class Result(Generic[R]):
    """The outcome of one decision.

    records      written and replayed in this order, all or none (message objects, see `records.Record`)
    response     the answer to the caller itself; None leaves it parked
    answers      answers to callers parked earlier, released together with `response`
    effects      changes of what lives in memory only, applied with the records' replay; not undone if the
                 append fails
    on_commit    called once the records (and all before them) are committed, before the answers are given;
                 never if the append fails or the shard is given up first. What it decides is a new decision.
    producer     the records are part of this producer's transaction: they count once it commits
    marker       ends a producer's transaction in this shard's log; such a result has no records
    on_failure   called with the error code after a failed append was rolled back: repairs what is in memory
    """

    __slots__ = ("answers", "effects", "marker", "on_commit", "on_failure", "producer", "records", "response")

    def __init__(
        self,
        response: R | None = None,
        records: list[Any] | None = None,
        answers: list[ParkedAnswer] | None = None,
        on_failure: Callable[[int], None] | None = None,
        on_commit: Callable[[], None] | None = None,
        producer: Producer | None = None,
        marker: Marker | None = None,
        effects: list[Callable[[], None]] | None = None,
    ) -> None:
        self.response = response
        self.records: list[Any] = [] if records is None else records
        self.answers: list[ParkedAnswer] = [] if answers is None else answers
        self.on_failure = on_failure
        self.on_commit = on_commit
        self.producer = producer
        self.marker = marker
        self.effects: list[Callable[[], None]] = [] if effects is None else effects

    def add_to(self, other: "Result[Any]") -> None:
        """Make records, answers and effects a part of another result."""
        other.records += self.records
        other.answers += self.answers
        other.effects += self.effects

    def __repr__(self) -> str:
        return f"Result({self.response!r}, records={self.records!r}, answers={self.answers!r})"
