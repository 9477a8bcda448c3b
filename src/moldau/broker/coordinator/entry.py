"""One decision in a shard's append queue: its records, and the responses that wait for them."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, cast

from moldau.broker.coordinator.machine import KeyValue, Machine, TransactionalMachine
from moldau.broker.coordinator.markers import Marker
from moldau.broker.coordinator.result import Parked, Producer, Result

BATCH_BYTES_MAX = 64 * 1024
"""Records of one append: building it holds the loop for a millisecond or two. A larger single result
goes alone."""

Refuse = Callable[[int], Any]
"""Builds the response for an error code."""

_log = logging.getLogger("moldau.coordinator.entry")


class Entry:
    """A result in a shard's queue, decided at `since_ms`. `before` is the journal's mark from before its
    records were replayed."""

    __slots__ = ("before", "parked", "records", "refuse", "result", "since_ms", "size_bytes", "writer")

    def __init__(
        self,
        result: Result[Any],
        parked: Parked[Any] | None,
        refuse: Refuse | None,
        state: Machine,
        since_ms: int = 0,
    ) -> None:
        self.since_ms = since_ms
        self.result = result
        self.parked = parked
        self.refuse = refuse
        self.before = state.journal.mark()
        self.records: list[KeyValue] = []
        self.size_bytes = 0
        self.writer: Producer | Marker | None = result.marker or result.producer
        if result.records:
            self.records = [state.encode(record) for record in result.records]
            self.size_bytes = sum(len(key) + len(value or b"") + 16 for key, value in self.records)

    @property
    def writes(self) -> bool:
        """Whether it has something to append; an entry without records only waits for those before it."""
        return bool(self.records) or self.result.marker is not None

    def fits(self, first: "Entry", size_bytes: int) -> bool:
        """Whether it may share a batch with `first`, which has grown to `size_bytes`. An entry that writes
        nothing fits anywhere."""
        if not self.writes:
            return True
        if self.writer != first.writer or self.result.marker is not None:
            return False
        return size_bytes + self.size_bytes <= BATCH_BYTES_MAX

    def replay(self, state: Machine) -> None:
        """Apply the records to `state`, all or none."""
        try:
            _replay(state, self.result)
        except BaseException:
            state.journal.roll_back(self.before)
            raise

    def refuse_caller(self, error_code: int) -> None:
        """Answer the caller with an error, unless it has its answer, or waits for another request."""
        if self.parked is not None and self.refuse is not None and self.result.response is not None:
            self.parked.answer(self.refuse(error_code))

    def release(self) -> None:
        """The records are committed: release the responses."""
        if self.result.on_commit is not None:
            try:
                self.result.on_commit()
            except Exception:
                _log.exception("on_commit failed; the records are committed, and their answers are given")
        if self.result.response is not None and self.parked is not None:
            self.parked.answer(self.result.response)
        for parked, response in self.result.answers:
            parked.answer(response)


def refuse(entries: Iterable[Entry], error_code: int) -> None:
    """The records of `entries` are not committed: run `on_failure`, newest first, then refuse the callers.
    Answers to callers parked earlier depend on in-memory state only, which a failed append does not undo;
    they are given all the same, unless `on_failure` gave another one.
    """
    entries = list(entries)
    for entry in reversed(entries):
        if entry.result.on_failure is not None:
            entry.result.on_failure(error_code)
    for entry in entries:
        entry.refuse_caller(error_code)
        for parked, response in entry.result.answers:
            parked.answer(response)


def _replay(state: Machine, result: Result[Any]) -> None:
    # Only a TransactionalMachine returns results with a marker or a producer.
    if result.marker is not None:
        marker = result.marker
        cast("TransactionalMachine", state).end_transaction(marker.producer_id, marker.committed)
    elif result.producer is not None:
        for record in result.records:
            cast("TransactionalMachine", state).replay_pending(record, result.producer)
    else:
        for record in result.records:
            state.replay(record)
