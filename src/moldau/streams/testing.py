"""Tests of an app without a broker: give records to topics, get what its flows write.

    from moldau.streams.testing import Harness

    def test_late_flights():
        with Harness(app) as harness:
            harness.send("flights", {"carrier": "AA", "dep_delay": 90.0}, {"carrier": "UA", "dep_delay": 5.0})
            assert harness.rows("late-flights") == [{"carrier": "AA", "dep_delay": 90.0}]

The flows are the app's own, and so is Spark: windows, watermarks, joins and state are those of a run. Only
the topics are folders on the disk instead of a cluster's, with one partition each. A session costs seconds;
it is made by the first harness of a process and kept.

Topics with a schema of the registry have theirs in the harness: `harness.register("flights", text)` adds a
version, and mappings are sent, and given back, as records of it.

Every question (`rows`, `records`, `table`) waits until all that was sent has gone through all flows.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from moldau.streams.building import build_all
from moldau.streams.errors import AppError, StreamsError, require_spark
from moldau.streams.failures import sentence
from moldau.streams.flow import Flow, Output
from moldau.streams.harness_schemas import HarnessSchemas
from moldau.streams.running import RunningFlow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moldau.streams.app import App
    from moldau.streams.places import WriteBatch
    from moldau.streams.topic import Topic
    from pyspark_moldau.schema_options import RecordFormats

TRIGGER = "50 milliseconds"
PASSES_MAX = 20
ATTEMPTS_MAX = 3
WORKER_TOO_SLOW = "Python worker failed to connect back"
"""Spark gives a new worker ten seconds, which is short on a machine that is busy with other tests."""


@dataclass(frozen=True)
class Record:
    """A record that a flow has written."""

    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)

    def json(self) -> Any:
        """The value, read as JSON; None for a tombstone."""
        return None if self.value is None else json.loads(self.value)


class Harness:
    """An app's flows on topics of a test; a context manager."""

    def __init__(
        self, app: App, spark: SparkSession | None = None, *, flows: Sequence[str] | None = None
    ) -> None:
        """`spark`: a session to use; `flows`: the names of those to run, else all."""
        unknown = sorted(set(flows or ()) - set(app.flows))
        if unknown:
            raise AppError(f"app {app.name} has no flow {unknown[0]}; it has {', '.join(app.flows)}")
        require_spark()
        self.app = app
        self._spark = spark
        self._names = list(flows if flows is not None else app.flows)
        self._folder = Path()
        self._running: list[RunningFlow] = []
        self._done: dict[str, int] = {}
        self._lock = threading.Lock()
        """Held from counting a topic's records until more are added: every flow writes in its own thread."""

    def __enter__(self) -> Self:
        from moldau.streams.harness_source import HarnessSource
        from moldau.streams.session import spark_session

        if self._spark is None:
            self._spark = spark_session(self.app.name, master="local[2]", settings=self.app.settings)
        self._spark.dataSource.register(HarnessSource)
        self._folder = Path(tempfile.mkdtemp(prefix="moldau-harness-"))
        self.schemas = HarnessSchemas(self.app, self._folder / "registry")
        return self

    @property
    def session(self) -> SparkSession:
        """The session in which the harness's topics can be read. (A thread's active one may be a query's
        copy.)"""
        assert self._spark is not None, "the harness has not been entered"
        return self._spark

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def send(
        self,
        topic: str,
        *values: Mapping[str, Any] | str | bytes | None,
        key: str | bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        timestamp: datetime | None = None,
        version: int | None = None,
    ) -> None:
        """Add a record for each value: a mapping, a text, bytes, or None (a tombstone).

        A mapping is written as JSON, or with the topic's schema: the newest, or this version of it. The key
        is `key`; without one, what the topic's key columns have in a mapping.
        """
        written = [
            self.schemas.encode(topic, value, version)
            if isinstance(value, Mapping) and self.schemas.has(topic)
            else _bytes(value)
            for value in values
        ]
        with self._lock:
            offset = len(self._stored(topic))
            self._append(
                topic,
                [
                    {
                        "key": _bytes(key) if key is not None else self._key(topic, value),
                        "value": written[index],
                        "offset": offset + index,
                        "timestamp": timestamp or datetime.now(UTC),
                        "headers": [{"key": name, "value": text} for name, text in (headers or {}).items()],
                    }
                    for index, value in enumerate(values)
                ],
            )

    def register(self, topic: str, schema: str, kind: str = "avro", *, of_key: bool = False) -> int:
        """Register a schema for a topic's values, or keys: avro, json-schema or protobuf. Gives its version.

        Flows that run go on with the one that they began with; `stop` and `start` pick up the newest.
        """
        return self.schemas.register(topic, schema, kind, of_key=of_key).version

    def records(self, topic: str) -> list[Record]:
        """Everything in a topic, once all that was sent has gone through the flows."""
        self.settle()
        return [
            Record(row["key"], row["value"], {each["key"]: each["value"] for each in row["headers"] or ()})
            for row in self._stored(topic)
        ]

    def rows(self, topic: str) -> list[Any]:
        """The same, each value read as JSON, or by the schema it was written with."""
        return [self._value(topic, record) for record in self.records(topic)]

    def table(self, topic: str) -> dict[str, Any]:
        """The latest value of every key that is not removed, by the key's text."""
        as_text = self.schemas.key_text if self.schemas.has_keys(topic) else _text
        latest = {as_text(topic, each.key): self._value(topic, each) for each in self.records(topic)}
        return {key: value for key, value in latest.items() if value is not None}

    def _value(self, topic: str, record: Record) -> Any:
        return self.schemas.decode(topic, record.value) if self.schemas.has(topic) else record.json()

    def settle(self) -> None:
        """Return when every flow has read all there is. StreamsError if one fails."""
        if not self._running:
            self.start()
        for _ in range(PASSES_MAX):
            before = dict(self._done)
            for each in self._running:
                self._settle(each)
            if before == self._done:
                return
        raise StreamsError(f"app {self.app.name} does not come to rest: do its flows read what they write?")

    def _settle(self, running: RunningFlow) -> None:
        for attempt in range(ATTEMPTS_MAX):
            try:
                running.process_all()
            except Exception as failure:
                if WORKER_TOO_SLOW not in str(failure) or attempt == ATTEMPTS_MAX - 1:
                    raise StreamsError(f"flow {running.flow.name} failed: {sentence(failure)}") from failure
                running.start()  # from its checkpoint
            else:
                return

    def start(self) -> None:
        """Start the flows, from where they were stopped."""
        from moldau.streams.encoding import encoded

        place = HarnessPlace(self)
        flows = [replace(self.app.flows[name], trigger=TRIGGER) for name in self._names]

        def build(flow: Flow) -> DataFrame:
            with self.app.at(place), self.app.building(flow):
                rows = flow.rows()
                if isinstance(flow.output, Output):
                    place.register(flow, flow.output, encoded(rows, flow.output))
            return rows

        for flow, rows in zip(flows, build_all(flows, build), strict=True):
            name = flow.name
            checkpoint = (self._folder / "checkpoints" / name).as_uri()
            running = RunningFlow(flow, rows, place, checkpoint, once=False, look=lambda: None)
            running.start()
            if running.state != "running":
                raise StreamsError(f"flow {name} cannot start: {running.reason}")
            self._running.append(running)

    def stop(self) -> None:
        """Stop the flows; what was sent and written stays, and `start` goes on from there."""
        for each in self._running:
            each.stop_now()
        self._running = []

    def _key(self, topic: str, value: object) -> bytes | None:
        known = self.app.topics.get(topic)
        if known is None or not known.format.key or not isinstance(value, Mapping):
            return None
        names = [column.split()[0] for column in known.format.key]
        if known.format.key_format is not None:
            return self.schemas.encode_key(topic, {name: value.get(name) for name in names})
        if len(names) == 1:
            return None if value.get(names[0]) is None else str(value[names[0]]).encode()
        return json.dumps({name: value.get(name) for name in names}, default=str).encode()

    def _stored(self, topic: str) -> list[dict[str, Any]]:
        from moldau.streams.harness_source import rows_of

        return rows_of(self.folder_of(topic))

    def _append(self, topic: str, records: Sequence[Mapping[str, Any]]) -> None:
        from moldau.streams.harness_source import append

        if records:
            fixed = {"topic": topic, "partition": 0, "timestampType": 0}
            append(self.folder_of(topic), [{**fixed, **each} for each in records])

    def folder_of(self, topic: str) -> Path:
        """Where a topic's files are."""
        return self._folder / "topics" / topic

    def write(
        self, flow: Flow, topic: str, batch: DataFrame, batch_id: int, formats: RecordFormats | None = None
    ) -> None:
        """Write a micro-batch, unless it was written before."""
        if batch_id <= self._done.get(flow.name, -1):
            return
        rows = _coded(batch, formats)
        with self._lock:
            offset = len(self._stored(topic))
            now = datetime.now(UTC)
            written = [
                {
                    "key": None if row.key is None else bytes(row.key),
                    "value": None if row.value is None else bytes(row.value),
                    "headers": [each.asDict() for each in getattr(row, "headers", None) or ()],
                    "offset": offset + index,
                    "timestamp": now,
                }
                for index, row in enumerate(rows)
            ]
            self._append(topic, written)
            self._done[flow.name] = batch_id


class HarnessPlace:
    """The topics of a harness, as an app needs them (places.Place)."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._formats: dict[str, RecordFormats] = {}

    def begin(self) -> None:
        """A run has a place of its own."""

    def find_schema(self, topic: Topic) -> None:
        """It is found when the topic is read."""

    def register(self, flow: Flow, output: Output, records: DataFrame) -> None:
        """Find or register the schemas that the flow's records are written with."""
        from moldau.streams.registered import formats_for_writing, writing_options

        if output.has_schemas:
            options = writing_options(self._harness.app, output, self._harness.schemas.url)
            self._formats[flow.name] = formats_for_writing(options, output.topic, records.schema)

    def read_stream(self, topic: Topic, flow: Flow | None, *, headers: bool = False) -> DataFrame:
        """Read a topic as a stream."""
        reader = self._harness.session.readStream.format("moldau-harness")
        return reader.options(**self._options(topic, headers)).load()

    def read_batch(self, topic: Topic) -> DataFrame:
        """Read what a topic has now."""
        reader = self._harness.session.read.format("moldau-harness")
        return reader.options(**self._options(topic, False)).load()

    def read_table(self, topic: Topic) -> DataFrame:
        """The same: the folder is looked into whenever it is read."""
        return self.read_batch(topic)

    def writer(self, flow: Flow, output: Output) -> WriteBatch:
        """Write to a topic."""
        formats = self._formats.get(flow.name)
        return lambda batch, batch_id: self._harness.write(flow, output.topic, batch, batch_id, formats)

    def _options(self, topic: Topic, headers: bool) -> dict[str, str]:
        from moldau.streams.registered import pinned_for_reading, reading_options

        with_headers = headers or topic.format.record
        schema = reading_options(self._harness.app, topic, self._harness.schemas.url)
        if schema:
            schema |= pinned_for_reading(schema, topic.name)
        return {
            **schema,
            "path": str(self._harness.folder_of(topic.name)),
            "includeHeaders": "true" if with_headers else "false",
        }


def _coded(batch: DataFrame, formats: RecordFormats | None) -> list[Any]:
    """The rows of a batch, with keys and values as bytes."""
    if formats is None:
        return batch.collect()
    from pyspark.sql import Row

    from pyspark_moldau.encoding import encoded_column

    table = batch.toArrow().combine_chunks()
    for choice in formats.choices:
        index = table.schema.get_field_index(choice.side)
        for chunk in table.column(index).chunks:
            table = table.set_column(index, choice.side, encoded_column(chunk, choice))
    if not table.num_rows:
        return []
    return [Row(**row) for row in table.to_pylist()]


def _text(topic: str, key: bytes | None) -> str:
    return (key or b"").decode()


def _bytes(value: Mapping[str, Any] | str | bytes | None) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, default=str).encode()
