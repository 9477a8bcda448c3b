"""Where rows come from and go to when an app runs: a cluster.

`Place` is the interface an app needs; testing.py has one without a cluster. Input records have the columns of
the format "moldau" (key value topic partition offset timestamp ...), output records key, value and perhaps
headers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moldau.streams.app import App
    from moldau.streams.flow import Flow, Output
    from moldau.streams.topic import Topic

WriteBatch = Callable[["DataFrame", int], None]
"""Writes the records of a micro-batch, of which it is given the number."""


class Place(Protocol):
    """Where an app's rows come from and go to."""

    def read_stream(self, topic: Topic, flow: Flow | None, *, headers: bool = False) -> DataFrame:
        """The records of a topic as a stream, for the flow `flow`."""

    def read_batch(self, topic: Topic) -> DataFrame:
        """The records that a topic has now."""

    def read_table(self, topic: Topic) -> DataFrame:
        """The same, read again in every micro-batch of a stream that is joined with it."""

    def begin(self) -> None:
        """Begin a run: the newest schemas of now are taken."""

    def find_schema(self, topic: Topic) -> None:
        """Find the schema that a topic is read with, if it is the registry's, and keep it for the run."""

    def register(self, flow: Flow, output: Output, records: DataFrame) -> None:
        """Register the schema of the records that a flow writes, where the output's format has one."""

    def writer(self, flow: Flow, output: Output) -> WriteBatch:
        """The writer of the flow's micro-batches."""


class ClusterPlace:
    """A Kafka cluster, through the format "moldau"."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._read_with: dict[tuple[object, ...], dict[str, str]] = {}
        self._written_with: dict[str, dict[str, str]] = {}

    def begin(self) -> None:
        """Forget the schemas of a run before."""
        self._read_with.clear()
        self._written_with.clear()

    def find_schema(self, topic: Topic) -> None:
        """Find the schema that a topic is read with, if it is the registry's."""
        self._options(topic, headers=False)

    def register(self, flow: Flow, output: Output, records: DataFrame) -> None:
        """Find or register the schemas that the flow's records are written with."""
        if not output.has_schemas:
            return
        from moldau.streams.registered import pinned_for_writing
        from moldau.streams.writing import written_options

        options = written_options(self._app, flow, output)
        self._written_with[flow.name] = pinned_for_writing(options, output.topic, records.schema)

    def _options(self, topic: Topic, headers: bool, *, batch: bool = False) -> dict[str, str]:
        """The options for reading a topic, with its schema as of the begin of the run."""
        options = source_options(self._app, topic, headers, batch=batch)
        form = topic.format
        if not form.has_schemas:
            return options
        from moldau.streams.registered import pinned_for_reading

        key = (topic.name, form.value, form.registered, form.key_format, form.registry)
        if key not in self._read_with:
            self._read_with[key] = pinned_for_reading(options, topic.name)
        return {**options, **self._read_with[key]}

    def read_stream(self, topic: Topic, flow: Flow | None, *, headers: bool = False) -> DataFrame:
        """Read a topic as a stream; offsets are committed to the flow's consumer group, so that tools
        show the lag.
        """
        from pyspark_moldau.option_rows import STREAM
        from pyspark_moldau.options import parse_options

        options = self._options(topic, headers)
        if flow is not None:
            options.setdefault("groupId", flow.group)
        parse_options(options, STREAM)  # else Spark tells only when the query runs
        return active_session().readStream.format("moldau").options(**options).load()

    def read_batch(self, topic: Topic) -> DataFrame:
        """Read the records a topic has now."""
        return (
            active_session()
            .read.format("moldau")
            .options(**self._options(topic, topic.format.record, batch=True))
            .load()
        )

    def read_table(self, topic: Topic) -> DataFrame:
        """Read the records a topic has at each read."""
        from moldau.streams.table_source import TableSource

        session = active_session()
        session.dataSource.register(TableSource)
        return (
            session.read.format("moldau-table")
            .options(**self._options(topic, topic.format.record, batch=True))
            .load()
        )

    def writer(self, flow: Flow, output: Output) -> WriteBatch:
        """Write to a topic with the app's delivery guarantee."""
        from moldau.streams.writing import topic_writer

        return topic_writer(self._app, flow, output, self._written_with.get(flow.name))


def source_options(app: App, topic: Topic, headers: bool, *, batch: bool = False) -> dict[str, str]:
    """The options for reading a topic; the app's own, without those of producers."""
    from moldau.streams.registered import reading_options
    from pyspark_moldau.sink_options import PRODUCER_SETTINGS

    return {
        **({} if batch else {"startingOffsets": topic.starting}),
        **{name: value for name, value in app.options.items() if kafka_name(name) not in PRODUCER_SETTINGS},
        "kafka.bootstrap.servers": app.bootstrap_servers,
        "subscribe": topic.name,
        "includeHeaders": "true" if headers or topic.format.record else "false",
        **reading_options(app, topic),
        **topic.options,
    }


def kafka_name(option: str) -> str:
    """The client setting of an option: linger.ms of kafka.linger.ms; "" if it is none."""
    name = option.lower()
    return name.removeprefix("kafka.") if name.startswith("kafka.") else ""


def active_session() -> SparkSession:
    """The process's session; StreamsError without one."""
    from pyspark.sql import SparkSession

    from moldau.streams.errors import StreamsError

    # The active session is the calling thread's: it may have none, or the copy that some query's foreachBatch
    # has made, which knows no format and no view that came later.
    session = SparkSession._instantiatedSession or SparkSession.getActiveSession()
    if session is None:
        raise StreamsError(
            "there is no Spark session: topics are read inside a flow that runs, or after "
            "moldau.streams.session.spark_session('name')"
        )
    return session
