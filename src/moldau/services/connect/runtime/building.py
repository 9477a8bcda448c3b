"""Puts a task together: the connector's class, its settings as values, converters, transforms, clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isclass
from typing import Any, Protocol

from moldau.common.core.clock import Clock
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.finding import find
from moldau.connect.plugins import Kind
from moldau.connect.settings import Setting
from moldau.connect.sink import Sink, SinkContext
from moldau.connect.source import Source, SourceContext
from moldau.connect.typed_settings import required_typed
from moldau.services.connect.runtime.control import Control
from moldau.services.connect.runtime.converters import converters_of
from moldau.services.connect.runtime.dead_letters import LetterWriter
from moldau.services.connect.runtime.engines import AUTO, LOCAL, SPARK, Engine, asked_engine, engine_of
from moldau.services.connect.runtime.hiding import Hiding
from moldau.services.connect.runtime.metrics import TaskMetrics
from moldau.services.connect.runtime.problems import ErrorPolicy
from moldau.services.connect.runtime.reading import Reading
from moldau.services.connect.runtime.rows import ERROR_ROWS, SOURCE_ROWS, settings_of
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_keeper import Keeper
from moldau.services.connect.runtime.sink_letters import SinkLetters
from moldau.services.connect.runtime.sink_task import SinkTask
from moldau.services.connect.runtime.sink_writing import SinkWriting
from moldau.services.connect.runtime.source_offsets import SourceOffsets
from moldau.services.connect.runtime.source_task import SourceTask
from moldau.services.connect.runtime.source_writer import PlainWriter, SourceWriter, TransactionalWriter
from moldau.services.connect.runtime.steps import steps_of
from moldau.services.connect.runtime.topics import ensure_topic, topic_creation
from moldau.services.connect.runtime.writing import Writing

log = logging.getLogger("moldau.connect")


@dataclass(frozen=True)
class Shared:
    """What all tasks of a worker have in common."""

    worker: Mapping[str, str]
    clock: Clock
    keeper: Keeper
    offsets: SourceOffsets
    topic_used: Callable[[str, str], None]
    spark: Callable[[], Any] | None = None
    """Gives the worker's Spark session, if there may be one."""


def connector_class(config: Mapping[str, str]) -> type[Source] | type[Sink]:
    """The class that `connector.class` names. ConnectError."""
    name = config.get("connector.class", "")
    if not name:
        raise ConnectError('Missing required configuration "connector.class" which has no default value.')
    found = find([Kind.SOURCE, Kind.SINK], name)
    if not (isclass(found) and issubclass(found, (Source, Sink))):
        raise ConnectError(f"{name} is neither a source nor a sink")
    return found


def connector_settings(kind: type[Source] | type[Sink], config: Mapping[str, str]) -> dict[str, Any]:
    """The values of a connector's settings. ConnectError with all that is wrong; what has no effect is
    logged."""
    for row in kind.settings:
        if row.without_effect and row.name in config:
            log.warning("%s has no effect here: %s", row.name, row.without_effect)
    return required_typed(kind.settings, config, kind.__name__)


def secret_rows(kind: type[Source] | type[Sink] | None) -> tuple[Setting, ...]:
    """The rows that may name secrets."""
    return () if kind is None else tuple(kind.settings)


class Body(Protocol):
    """What moves a task's records."""

    def run(self) -> None:
        """Until it is stopped or fails."""

    def abandon(self) -> None:
        """From another thread: it does not end; let others have its partitions."""


class Run:
    """One run of a task: the connector's object and what moves its records."""

    def __init__(
        self,
        connector: Source | Sink | None,
        body: Body,
        engine: Engine,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """`connector`: None where executors make it."""
        self.engine = engine
        self._connector = connector
        self._body = body
        self._close = close

    def run(self) -> None:
        """Until it is stopped or fails."""
        self._body.run()

    def abandon(self) -> None:
        """From another thread: it does not end; let others have its partitions."""
        self._body.abandon()

    def close(self) -> None:
        """Stop the connector. What that raises is logged."""
        stop = () if self._connector is None else (self._connector.stop,)
        for each in (*stop, self._close):
            try:
                each()
            except Exception as error:
                log.warning("%s: stopping: %s", type(self._connector).__name__, error)


def build(setup: TaskSetup, shared: Shared, control: Control, metrics: TaskMetrics) -> Run:
    """A run, its connector started. ConnectError, Retriable, and what the class raises."""
    kind = connector_class(setup.config)
    settings = connector_settings(kind, setup.config)
    errors = settings_of(ERROR_ROWS, setup.config, setup.connector)
    hiding = Hiding(setup.config, secret_rows(kind))
    policy = ErrorPolicy(errors, shared.clock, metrics, setup.client_id, hiding.text)
    letters = LetterWriter(errors, setup.task, hiding)
    if letters.is_wanted:
        ensure_topic(setup.admin(), letters.topic, 1, letters.replication_factor, {})
    engine = engine_of(kind, setup.config, shared.worker)
    if issubclass(kind, Sink):
        if engine.name == SPARK:
            missing = _missing_for_spark(setup, shared)
            if missing is None:
                return _spark(kind, engine, setup, shared, control, metrics)
            engine = Engine(LOCAL, missing)
        return _sink(kind(), engine, settings, setup, shared, control, metrics, policy, letters)
    if engine.name == SPARK:
        return _spark_source(engine, setup, shared, control, metrics)
    return _source(kind(), engine, settings, setup, shared, control, metrics, policy, letters)


def _missing_for_spark(setup: TaskSetup, shared: Shared) -> str | None:
    """Why this worker runs a sink locally for which Spark was chosen (engine auto); None: it need not.
    ConnectError where Spark was asked for."""
    if asked_engine(setup.config, shared.worker) != AUTO:
        return None
    if shared.spark is None:
        return "auto: Spark was chosen, but this worker has none"
    try:
        shared.spark()
    except ConnectError as problem:
        return f"auto: Spark was chosen, but {problem}"
    return None


def _spark(
    kind: type[Sink],
    engine: Engine,
    setup: TaskSetup,
    shared: Shared,
    control: Control,
    metrics: TaskMetrics,
) -> Run:
    session = _session_of(shared)
    if kind.keeps_open:
        raise ConnectError(
            f"{kind.__name__} keeps records open beyond a micro-batch: it needs moldau.connect.engine=local"
        )
    from moldau.services.connect.runtime.spark_task import SparkSinkTask

    used = _once(setup.connector, shared.topic_used)
    return Run(None, SparkSinkTask(setup, session, control, metrics, used), engine)


def _spark_source(
    engine: Engine, setup: TaskSetup, shared: Shared, control: Control, metrics: TaskMetrics
) -> Run:
    session = _session_of(shared)
    from moldau.services.connect.runtime.spark_source_task import SparkSourceTask

    used = _once(setup.connector, shared.topic_used)
    return Run(None, SparkSourceTask(setup, session, control, metrics, used), engine)


def _session_of(shared: Shared) -> Callable[[], Any]:
    if shared.spark is None:
        raise ConnectError(
            "moldau.connect.engine=spark, but this worker has no Spark session: "
            'pip install "moldau[spark]", or set it to local'
        )
    return shared.spark


def _fence_drivers(setup: TaskSetup, shared: Shared) -> None:
    """A Spark driver of this sink that was left behind somewhere moves no offsets any more. Retriable."""
    if shared.spark is None:
        return
    from moldau.services.connect.runtime.spark_commits import fence

    try:
        fence(setup)
    except Retriable:
        if shared.worker.get("exactly.once.source.support", "enabled").strip().lower() != "disabled":
            raise  # not fenced: it may be at work
        log.warning("%s: no transactions: whether a driver was left behind is not known", setup.client_id)
    except ConnectError as refused:  # who may not use the id, has had no driver with it
        log.info("%s: %s", setup.client_id, refused)


def _sink(
    sink: Sink,
    engine: Engine,
    settings: Mapping[str, Any],
    setup: TaskSetup,
    shared: Shared,
    control: Control,
    metrics: TaskMetrics,
    policy: ErrorPolicy,
    letters: LetterWriter,
) -> Run:
    reading = Reading(converters_of(setup), steps_of(setup.config))
    writing = SinkWriting(sink, reading, policy, letters, SinkLetters(setup, letters.topic), metrics)
    context = SinkContext(
        setup.connector, setup.task.task, control.stopping, control.wait, writing.bad_record
    )
    try:
        _fence_drivers(setup, shared)
        sink.start(settings, context)
        used = _once(setup.connector, shared.topic_used)
        body = SinkTask(setup, sink, writing, control, shared.keeper, shared.clock, metrics, used)
    except BaseException:
        _stopped(sink, writing.close)
        raise
    return Run(sink, body, engine, writing.close)


def _source(
    source: Source,
    engine: Engine,
    settings: Mapping[str, Any],
    setup: TaskSetup,
    shared: Shared,
    control: Control,
    metrics: TaskMetrics,
    policy: ErrorPolicy,
    letters: LetterWriter,
) -> Run:
    own = settings_of(SOURCE_ROWS, setup.config, setup.connector)
    creates = setup.worker.get("topic.creation.enable", "true").strip().lower() != "false"
    creation = topic_creation(setup.config, creates)
    writing = Writing(converters_of(setup), steps_of(setup.config))
    writer = source_writer(setup, own, type(source))
    context = SourceContext(setup.connector, setup.task.task, control.stopping, control.wait, lambda: None)
    try:
        source.start(settings, context)
        body = SourceTask(
            setup,
            own,
            source,
            writing,
            writer,
            policy,
            letters,
            creation,
            shared.offsets,
            control,
            shared.clock,
            metrics,
            _once(setup.connector, shared.topic_used),
        )
    except BaseException:
        _stopped(source, writing.close)
        raise
    return Run(source, body, engine, writing.close)


def source_writer(setup: TaskSetup, own: Mapping[str, Any], kind: type[Source]) -> SourceWriter:
    """With transactions unless the worker says otherwise. ConnectError: they are required and cannot be
    had."""
    support = setup.worker.get("exactly.once.source.support", "enabled").strip().lower()
    if own["exactly.once.support"] == "required":
        if support != "enabled":
            raise ConnectError(
                "exactly.once.support=required, but the worker has exactly.once.source.support="
                f"{support}: set it to enabled on all workers"
            )
        if not kind.exactly_once:
            raise ConnectError(
                f"exactly.once.support=required, but {kind.__name__} cannot begin again exactly where it was"
            )
    if support != "enabled":
        return PlainWriter(setup)
    interval = own["transaction.boundary.interval.ms"]
    flush_ms = float(setup.setting("offset.flush.interval.ms", "60000"))
    waits = own["transaction.boundary"] == "interval"
    return TransactionalWriter(
        setup, (float(interval) if interval is not None else flush_ms) if waits else 0.0
    )


def _once(connector: str, told: Callable[[str, str], None]) -> Callable[[str], None]:
    """Tell of each topic once."""
    known: set[str] = set()

    def used(topic: str) -> None:
        if topic not in known:
            known.add(topic)
            told(connector, topic)

    return used


def _stopped(connector: Source | Sink, close: Callable[[], None]) -> None:
    for each in (connector.stop, close):
        try:
            each()
        except Exception as error:
            log.debug("%s: stopping what did not start: %s", type(connector).__name__, error)
