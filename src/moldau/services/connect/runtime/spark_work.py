"""What a Spark task does for a sink: convert, transform and write the rows of its range of a partition.

A run is what the local engine would call one: consecutive records, written under the offset of the first.
Where the runs of the range end, the driver has noted before (spark_commits.py), so the same runs come again.
A sink that keeps positions is asked where it stands, and gets what lies behind.

Out go, instead of the rows: how far each partition was written, and dead letters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.common.core.clock import SystemClock
from moldau.connect.batch import TopicPartition
from moldau.connect.errors import ConnectError
from moldau.connect.sink import Sink, SinkContext
from moldau.services.connect.runtime.building import connector_class, connector_settings, secret_rows
from moldau.services.connect.runtime.converters import converters_of
from moldau.services.connect.runtime.dead_letters import Letter, LetterWriter
from moldau.services.connect.runtime.hiding import Hiding
from moldau.services.connect.runtime.metrics import TaskMetrics
from moldau.services.connect.runtime.problems import ErrorPolicy
from moldau.services.connect.runtime.reading import Reading
from moldau.services.connect.runtime.rows import ERROR_ROWS, settings_of
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_letters import SinkLetters
from moldau.services.connect.runtime.sink_notes import Notes
from moldau.services.connect.runtime.sink_partitions import Run, SinkPartition
from moldau.services.connect.runtime.sink_writing import SinkWriting, Work
from moldau.services.connect.runtime.spark_ranges import next_end
from moldau.services.connect.runtime.spark_rows import SparkMessages, by_partition
from moldau.services.connect.runtime.steps import steps_of

OUT_SCHEMA = (
    "topic string, partition int, end long, count long, letter boolean, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_OUT = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("end", pa.int64()),
        ("count", pa.int64()),
        ("letter", pa.bool_()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
    ]
)

RunEnds = Mapping[TopicPartition, Sequence[int]]
"""Where the runs of each partition's range end, rising; the last one with the range."""
Bad = Mapping[TopicPartition, frozenset[int]]
"""Offsets of records that are dead letters already."""


def work_of(
    setup: TaskSetup, ends: RunEnds, bad: Bad
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return  # a task without rows makes no sink
        made = _SparkWork(setup, ends, bad)
        try:
            yield from made.run(_again(first, batches))
        finally:
            made.close()

    return work


def _again(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


@dataclass
class _Range:
    """One partition's part of the micro-batch."""

    origin: TopicPartition
    position: int | None
    """Where the target stands; None: it does not say."""
    ends: Sequence[int]
    kept: list[pa.RecordBatch] = field(default_factory=list)
    end: int = 0
    count: int = 0


class _SparkWork:
    def __init__(self, setup: TaskSetup, ends: RunEnds, bad: Bad) -> None:
        kind = connector_class(setup.config)
        if not issubclass(kind, Sink):
            raise ConnectError(f"{kind.__name__} is no sink")
        self._setup = setup
        self._ends, self._bad = ends, bad
        self._ranges: dict[TopicPartition, _Range] = {}
        self._letters: list[Letter] = []
        self._keeps_positions = False
        clock = SystemClock()
        metrics = TaskMetrics(clock)
        errors = settings_of(ERROR_ROWS, setup.config, setup.connector)
        hiding = Hiding(setup.config, secret_rows(kind))
        self._policy = ErrorPolicy(errors, clock, metrics, setup.client_id, hiding.text)
        letters = LetterWriter(errors, setup.task, hiding)
        reading = Reading(converters_of(setup), steps_of(setup.config))
        self._sink: Sink = kind()
        self._writing = SinkWriting(
            self._sink, reading, self._policy, letters, SinkLetters(setup, letters.topic), metrics
        )
        self._writing.bind(self._call, self._collect, self._once, keeps=False)
        context = SinkContext(
            setup.connector, setup.task.task, lambda: False, _sleep, self._writing.bad_record
        )
        self._sink.start(connector_settings(kind, setup.config), context)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            for messages in by_partition(rows):
                self._take(messages)
        for each in self._ranges.values():
            self._write_kept(each, whole=True)
        self._sink.flush()  # not repeated, since what was staged went with a failure: the micro-batch is
        self._see_that_it_is_lasting()
        self._sink.closed(list(self._ranges))
        yield self._answer()

    def _take(self, messages: SparkMessages) -> None:
        found = self._ranges.get(messages.origin)
        if found is None:
            found = self._ranges[messages.origin] = self._opened(messages.origin)
        offsets = messages.table["offset"]
        found.end = offsets[-1].as_py() + 1
        found.count += len(messages)
        table = messages.table
        if found.position is not None:
            table = table.filter(pc.greater_equal(offsets, found.position))
        if table.num_rows:
            found.kept.append(table)
            whole_run = next_end(found.ends, found.kept[0]["offset"][0].as_py())
            if whole_run is not None and offsets[-1].as_py() >= whole_run - 1:
                self._write_kept(found, whole=False)

    def _opened(self, origin: TopicPartition) -> _Range:
        positions = self._sink.positions([origin])
        self._keeps_positions = positions is not None
        self._sink.opened([origin])
        return _Range(origin, (positions or {}).get(origin), self._ends[origin])

    def _write_kept(self, found: _Range, whole: bool) -> None:
        """Write the runs that are complete, and with `whole` also what is left."""
        if not found.kept:
            return
        table = pa.Table.from_batches(found.kept).combine_chunks()
        found.kept = []
        while table.num_rows:
            offsets = table["offset"]
            end = next_end(found.ends, offsets[0].as_py())
            if end is None:
                raise ConnectError(f"a record of {found.origin.topic} lies behind the micro-batch's range")
            is_complete = whole or offsets[-1].as_py() >= end - 1
            if not is_complete:
                found.kept = table.to_batches()
                return
            count = pc.sum(pc.less(offsets, end)).as_py()
            self._write(found.origin, table.slice(0, count).combine_chunks().to_batches()[0], end)
            table = table.slice(count)

    def _write(self, origin: TopicPartition, rows: pa.RecordBatch, end: int) -> None:
        messages = SparkMessages(origin, rows)
        first = messages[0].offset()
        bad = {each for each in self._bad.get(origin, ()) if first <= each < end}
        partition = SinkPartition(origin, first, Notes(first, bad=bad))
        run = Run(origin, messages, end, True)
        work = self._writing.prepare(run, partition)
        self._collect([work], None)
        self._writing.write(work, exact=False)

    def _call(self, operation: Callable[[], Any]) -> Any:
        return self._policy.repeated(operation, _sleep, endless=False)

    def _once(self, operation: Callable[[], Any]) -> Any:
        """Not repeated where the sink may have dropped more than this run."""
        return operation() if self._keeps_positions else self._call(operation)

    def _collect(self, works: Sequence[Work], _: Any) -> None:
        for each in works:
            self._letters += each.letters
            each.letters = []

    def _see_that_it_is_lasting(self) -> None:
        if not self._keeps_positions:
            return
        positions = self._sink.positions(list(self._ranges)) or {}
        for origin, each in self._ranges.items():
            if positions.get(origin, each.end) < each.end:
                raise ConnectError(
                    f"{type(self._sink).__name__} keeps records open beyond a micro-batch: it needs "
                    "moldau.connect.engine=local"
                )

    def _answer(self) -> pa.RecordBatch:
        rows: list[dict[str, Any]] = [
            {
                "topic": each.origin.topic,
                "partition": each.origin.partition,
                "end": each.end,
                "count": each.count,
                "letter": False,
            }
            for each in self._ranges.values()
        ]
        rows += [
            {
                "letter": True,
                "key": each.key,
                "value": each.value,
                "headers": [{"key": name, "value": value} for name, value in each.headers],
            }
            for each in self._letters
        ]
        return pa.RecordBatch.from_pylist(rows, schema=_OUT)

    def close(self) -> None:
        self._sink.stop()
        self._writing.close()


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False
