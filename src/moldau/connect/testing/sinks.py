"""Runs a sink as a worker does: runs with numbers, noted before they are written, repeated after a crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.building import batch_of
from moldau.connect.schema import Schema
from moldau.connect.sink import Sink, SinkContext
from moldau.connect.typed_settings import required_typed

_BEGAN_MS = 1_700_000_000_000


class Dies(BaseException):
    """The worker was killed here."""


class SinkRun:
    """A sink with a topic partition's records before it.

    `kill_after`: the call after which the worker dies: "write" or "flush", and how many of them; then
    `Dies` is raised, and `again()` starts the sink anew with what Kafka would have.
    """

    def __init__(self, kind: type[Sink], settings: Mapping[str, Any], tolerant: bool = False) -> None:
        """Start it. `tolerant`: bad records are collected in `bad`, and do not raise."""
        self._kind = kind
        self._settings = {name: str(value) for name, value in settings.items()}
        self._tolerant = tolerant
        self.bad: list[tuple[int, str]] = []
        """Offset and reason of records that were refused."""
        self._batches: dict[TopicPartition, list[Batch]] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._noted: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}
        self.calls = {"write": 0, "flush": 0}
        self.kill_after: tuple[str, int] | None = None
        self.sink = self._started()

    def _started(self) -> Sink:
        sink = self._kind()
        context = SinkContext("test", 0, lambda: False, lambda _: False, self._refuse)
        sink.start(required_typed(self._kind.settings, self._settings, self._kind.__name__), context)
        places = list(self._batches)
        if places:
            self._open(sink, places)
        return sink

    def _open(self, sink: Sink, places: Sequence[TopicPartition]) -> None:
        positions = sink.positions(places)
        for each in places:
            start = (
                self._committed.get(each, 0)
                if positions is None
                else positions.get(each, self._committed.get(each, 0))
            )
            self._written[each] = start
        sink.opened(places)

    def _refuse(self, batch: Batch, row: int, error: Exception) -> None:
        if not self._tolerant:
            raise error
        assert batch.offsets is not None
        self.bad.append((batch.offsets[row].as_py(), str(error)))

    def send(
        self,
        topic: str,
        values: Sequence[Any] | Batch,
        schema: Schema | None = None,
        keys: Sequence[Any] | None = None,
        partition: int = 0,
    ) -> None:
        """These records are in the topic now: one run, written at once."""
        place = TopicPartition(topic, partition)
        if place not in self._batches:
            self._batches[place] = []
            self._open(self.sink, [place])
        before = self._batches[place]
        first = before[-1].offsets[-1].as_py() + 1 if before and before[-1].offsets is not None else 0
        batch = values if isinstance(values, Batch) else batch_of(topic, values, schema, keys)
        offsets = pa.array(range(first, first + len(batch)), pa.int64())
        times = pa.array([_BEGAN_MS + each for each in range(first, first + len(batch))], pa.int64())
        before.append(replace(batch, origin=place, offsets=offsets, timestamps_ms=times))
        self.write()

    def write(self) -> None:
        """Write what is not written yet, run by run. Dies; what the sink raises."""
        for place, batches in self._batches.items():
            for batch in batches:
                assert batch.offsets is not None
                first, end = batch.offsets[0].as_py(), batch.offsets[-1].as_py() + 1
                start = self._written[place]
                if end <= start:
                    continue
                part = batch.slice(max(start - first, 0), len(batch))
                assert part.offsets is not None
                self._noted[place] = end
                self.sink.write(part, part.offsets[0].as_py())
                self._written[place] = end
                self._called("write")

    def flush(self) -> None:
        """Make lasting, and commit. Dies."""
        self.sink.flush()
        self._called("flush")
        self._committed = dict(self._written)

    def _called(self, what: str) -> None:
        self.calls[what] += 1
        if self.kill_after == (what, self.calls[what]):
            self.kill_after = None
            raise Dies

    def again(self) -> None:
        """After a crash: a new sink, and all that is not committed once more.

        The old one is stopped, which must flush nothing, so that it lets go of locks as a dead process does.
        """
        self.sink.stop()
        self.sink = self._started()
        self.write()

    def stop(self) -> None:
        """Flush, and end it as a worker does."""
        self.flush()
        self.sink.closed(list(self._batches))
        self.sink.stop()


def check_sink(
    kind: type[Sink],
    settings: Callable[[], Mapping[str, Any]],
    runs: Sequence[Sequence[Any]],
    read_back: Callable[[Mapping[str, Any]], Sequence[Any]],
    schema: Schema | None = None,
    topic: str = "orders",
) -> None:
    """Write runs of values with a crash after each write and each flush in turn. AssertionError: what
    `read_back(settings)` finds is not each value once.

    `settings()` makes those of a new, empty target each time.
    """
    wanted = [value for run in runs for value in run]
    for what in (
        None,
        *(("write", n + 1) for n in range(len(runs))),
        *(("flush", n + 1) for n in range(len(runs))),
    ):
        given = settings()
        run = SinkRun(kind, given)
        run.kill_after = what
        for values in runs:
            try:
                run.send(topic, values, schema)
                run.flush()
            except Dies:
                run.again()
                run.flush()
        run.stop()
        found = list(read_back(given))
        crash = "without a crash" if what is None else f"with a crash after {what[0]} number {what[1]}"
        assert _counted(found) == _counted(wanted), (
            f"{kind.__name__} {crash} has\n{found}\ninstead of\n{wanted}"
        )


def _counted(values: Sequence[Any]) -> list[str]:
    return sorted(map(repr, values))
