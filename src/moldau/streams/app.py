"""`App`: topics to read, flows to run, and a name under which all of it is known.

    from moldau.streams import App
    from pyspark.sql.functions import avg, window

    app = App("delays")
    flights = app.topic(
        "flights", schema="carrier string, origin string, time_hour timestamp, dep_delay double"
    )

    @app.to("delays-by-hour", key="origin")
    def delays_by_hour():
        return (
            flights.stream()
            .withWatermark("time_hour", "1 hour")
            .groupBy(window("time_hour", "1 hour"), "origin")
            .agg(avg("dep_delay").alias("delay"))
        )

Run it with `moldau streams run app.py`, or with `app.run()` at the end of the file.

An app only says what is to be done. Where rows come from and go to is its `place`: a cluster (places.py)
when it runs, a folder when it is tested (testing.py); so the same functions run in both.

Not here: running (runner.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.streams.durations import checked_duration
from moldau.streams.errors import AppError
from moldau.streams.flow import OUTPUT_MODES, BatchFunction, Flow, Output, OutputMode, Query, output_of
from moldau.streams.names import checked_name, name_from_topic
from moldau.streams.topic import (
    SCHEMA_FORMATS,
    BadRecords,
    Topic,
    ValueFormat,
    topic_format,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from moldau.streams.places import Place

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_CHECKPOINTS = "checkpoints"
DELIVERIES = ("exactly-once", "at-least-once")


class App:
    """A set of flows that run in one Spark session."""

    def __init__(
        self,
        name: str,
        *,
        bootstrap_servers: str | None = None,
        checkpoints: str | Path | None = None,
        delivery: str = "exactly-once",
        settings: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        registry: str | None = None,
    ) -> None:
        """Name an app.

        `bootstrap_servers`: else MOLDAU_BOOTSTRAP, else 127.0.0.1:9092. `checkpoints`: the folder of the
        checkpoints (or a URI that every machine of the Spark cluster reaches); else ./checkpoints.
        `delivery`: exactly-once, or the cheaper at-least-once. `settings`: Spark's (spark.sql...). `options`:
        client settings for every topic (kafka.security.protocol ...). `registry`: where the schema registry
        is, for topics that have their schemas there; else MOLDAU_SCHEMA_REGISTRY.
        """
        self.name = checked_name(name, "an app")
        if delivery not in DELIVERIES:
            raise AppError(f"delivery={delivery!r} is not one of {', '.join(DELIVERIES)}")
        self.bootstrap_servers = bootstrap_servers or os.environ.get("MOLDAU_BOOTSTRAP") or DEFAULT_BOOTSTRAP
        self.checkpoints = str(checkpoints or DEFAULT_CHECKPOINTS)
        self.delivery = delivery
        self.settings = dict(settings or {})
        self.options = dict(options or {})
        self.registry = registry or os.environ.get("MOLDAU_SCHEMA_REGISTRY")
        self.topics: dict[str, Topic] = {}
        self.all_topics: list[Topic] = []
        """`topics`, and with them those that are read in another way under the same name."""
        self.flows: dict[str, Flow] = {}
        self._place: Place | None = None
        self._building: Reading | None = None

    def topic(
        self,
        name: str,
        *,
        key: str | Sequence[str] | None = None,
        key_format: str = "text",
        value: ValueFormat = "json",
        schema: str | int | StructType | None = None,
        registry: str | None = None,
        subject: str | None = None,
        bad_records: BadRecords = "null",
        dead_letters: str | None = None,
        starting: str = "earliest",
        record: bool = False,
        watermark: tuple[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Topic:
        """A topic to read.

        `key`: the column (or columns) that the record key holds; `key_format`: text, or avro, json-schema or
        protobuf for keys with a schema of the registry. `value`: json, string, raw, or with a schema
        of the registry avro, json-schema or protobuf. `schema`: of JSON values, as Spark writes one
        ("carrier string, delay double"); of the registry, "latest" (the default) or a version. `registry`:
        its address, if it is not the app's. `subject`: the schema's, if it is not `<name>-value`.
        `bad_records`: null (a row of nulls), drop, dead-letter, or fail. `dead_letters`: the topic for bad
        records; `<name>-dead-letters` unless it is named. `starting`: earliest or latest, where a flow
        without a checkpoint begins. `record`: add a column with the record's key, topic, partition, offset,
        timestamp and headers. `watermark`: for every stream of it, such as ("time_hour", "1 hour").
        `options`: more options of the format "moldau".
        """
        if dead_letters == name:
            raise AppError(
                f"topic {name}: its dead letters must go to another topic, or they come back for ever"
            )
        if dead_letters is not None and bad_records not in ("null", "dead-letter"):
            raise AppError(f"topic {name}: bad_records={bad_records!r} writes no dead letters")
        if dead_letters is not None:
            bad_records = "dead-letter"
        elif bad_records == "dead-letter":
            dead_letters = f"{name}-dead-letters"
        if dead_letters is not None and key_format != "text" and value not in SCHEMA_FORMATS:
            raise AppError(
                f"topic {name}: dead letters keep the bytes of keys, which with key_format={key_format!r} "
                "are at hand only where values have a schema too"
            )
        if watermark is not None:
            checked_duration(watermark[1], f"topic {name}: watermark")
        form = topic_format(
            name,
            key=key,
            key_format=key_format,
            value=value,
            schema=schema,
            bad_records=bad_records,
            record=record,
            registry=registry,
            subject=subject,
        )
        topic = Topic(self, name, form, starting, dead_letters, dict(options or {}), watermark)
        if dead_letters is not None:
            self._add_dead_letters(topic, dead_letters)
        self.all_topics.append(topic)
        # A topic may be read in several ways; SQL and tests that name it mean the first.
        self.topics.setdefault(name, topic)
        return topic

    def _add_dead_letters(self, topic: Topic, target: str) -> None:
        from moldau.streams.dead_letters import dead_letters_of

        flow_name = f"{name_from_topic(topic.name)}-dead-letters"[-80:]
        self._add(
            Flow(self.name, flow_name, lambda: dead_letters_of(topic), Output(target, value="raw"), "append")
        )

    def to(
        self,
        target: str | BatchFunction,
        *,
        key: str | Sequence[str] | None = None,
        key_format: str = "text",
        key_schema: str | int | None = None,
        value: ValueFormat = "json",
        schema: str | int | None = None,
        registry: str | None = None,
        subject: str | None = None,
        record_name: str | None = None,
        name: str | None = None,
        mode: OutputMode | None = None,
        trigger: str | None = None,
        partitions: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> Callable[[Query], Flow]:
        """A decorator: the rows of the function's DataFrame go to a topic, or to a function of yours.

        A function gets every micro-batch as (DataFrame, number of the micro-batch), on the driver; it may
        see one again after a failure, with the same number. `key`: the column(s) that make the record key.
        `key_format`: text, or avro, json-schema or protobuf for keys with a schema of the registry, in
        `<topic>-key`: a record of the key's columns. `key_schema`: as `schema`, of keys. `value`: json (all
        columns), string or raw (one column), or avro, json-schema, protobuf (all columns, by a schema of the
        registry). `schema`: by default that of the columns, which is registered; "latest" or a version writes
        with what is there. `subject`: topic, record or topic-record (how Confluent names it), or the subject
        itself. `record_name`: of the record in a schema that is registered; else made of the topic's name.
        `registry`: its address, if not the app's. `name`: the flow's, else the function's.
        `mode`: append, update or complete. `trigger`: the time between micro-batches ("10 seconds").
        `partitions`, `config`: for a topic that does not exist yet.
        """
        output = (
            target
            if callable(target)
            else output_of(
                target,
                key=key,
                key_format=key_format,
                key_schema=key_schema,
                value=value,
                schema=schema,
                registry=registry,
                subject=subject,
                record_name=record_name,
                is_table=False,
                partitions=partitions,
                config=config,
            )
        )

        def add(query: Query) -> Flow:
            return self._add(self._flow(query, name, output, mode, trigger))

        return add

    def table(
        self,
        target: str,
        *,
        key: str | Sequence[str],
        key_format: str = "text",
        key_schema: str | int | None = None,
        value: ValueFormat = "json",
        schema: str | int | None = None,
        registry: str | None = None,
        subject: str | None = None,
        record_name: str | None = None,
        name: str | None = None,
        mode: OutputMode | None = None,
        trigger: str | None = None,
        partitions: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> Callable[[Query], Flow]:
        """A decorator: the function's rows are the newest state of a table, kept in a compacted topic by key.

        Each micro-batch writes the rows that changed. A row that has nothing but its key removes the key.
        """
        output = output_of(
            target,
            key=key,
            key_format=key_format,
            key_schema=key_schema,
            value=value,
            schema=schema,
            registry=registry,
            subject=subject,
            record_name=record_name,
            is_table=True,
            partitions=partitions,
            config=config,
        )
        if not output.key:
            raise AppError(f"table {target} needs a key: the column that tells its rows apart")

        def add(query: Query) -> Flow:
            return self._add(self._flow(query, name, output, mode, trigger))

        return add

    def sql(self, text: str | Path) -> list[Flow]:
        """Add the topics and flows that SQL statements describe: a file that ends in .sql, or the text
        itself.
        """
        from moldau.streams.sql import add_statements

        path = Path(text) if isinstance(text, Path) or text.strip().endswith(".sql") else None
        if path is None:
            return add_statements(self, str(text), "the SQL text")
        try:
            return add_statements(self, path.read_text(), str(path))
        except OSError as failure:
            raise AppError(f"cannot read {path}: {failure.strerror}") from None
        except UnicodeDecodeError:
            raise AppError(f"cannot read {path}: it is not text in UTF-8") from None

    def run(self, *, once: bool = False, master: str | None = None, **overrides: Any) -> None:
        """Run all flows until SIGINT or SIGTERM; with `once`, until everything that is there is processed.

        Raises StreamsError if a flow has failed; uncaught, it ends the program with its message and no
        traceback. `moldau streams run` does the same, with live progress.
        """
        from moldau.streams.errors import say_uncaught
        from moldau.streams.runner import run_app

        say_uncaught()
        run_app(self, once=once, master=master, **overrides)

    def _flow(
        self,
        query: Query,
        name: str | None,
        output: Output | BatchFunction,
        mode: OutputMode | None,
        trigger: str | None,
    ) -> Flow:
        if mode is not None and mode not in OUTPUT_MODES:
            raise AppError(f"mode={mode!r} is not one of {', '.join(OUTPUT_MODES)}")
        flow_name = checked_name(name or query.__name__, "a flow")
        if trigger is not None:
            checked_duration(trigger, f"flow {flow_name}: trigger")
        return Flow(self.name, flow_name, query, output, mode, trigger)

    def _add(self, flow: Flow) -> Flow:
        checked_name(flow.name, "a flow")
        if flow.name in self.flows:
            raise AppError(
                f"app {self.name} has two flows with the name {flow.name}: give one another with name=..."
            )
        self.flows[flow.name] = flow
        return flow

    @property
    def place(self) -> Place:
        """Where rows come from and go to; the cluster unless `at` set something else."""
        if self._place is None:
            from moldau.streams.places import ClusterPlace

            self._place = ClusterPlace(self)
        return self._place

    @contextmanager
    def at(self, place: Place) -> Iterator[None]:
        """Set where rows come from and go to."""
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    @contextmanager
    def building(self, flow: Flow) -> Iterator[Reading]:
        """Record which topics are read while the flow's function is called."""
        before, self._building = self._building, Reading(flow)
        try:
            yield self._building
        finally:
            self._building = before

    def reading(self, topic: Topic, *, as_table: bool = False) -> Flow | None:
        """Record that a topic is read; returns the flow that is being built, if any."""
        if self._building is None:
            return None
        (self._building.tables if as_table else self._building.streams).add(topic.name)
        return self._building.flow


class Reading:
    """What a flow reads."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.streams: set[str] = set()
        self.tables: set[str] = set()
