"""`Flow`: a function that returns a DataFrame, and the topic or function that gets its rows.

Decorating a function makes a flow of it and runs nothing: functions are called when the app starts. A flow
can also be called by hand and returns its DataFrame, for a notebook or a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from moldau.streams.errors import AppError
from moldau.streams.names import group_of
from moldau.streams.topic import (
    SCHEMA_FORMATS,
    RegisteredSchema,
    ValueFormat,
    key_columns,
    written_key,
    written_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OutputMode = Literal["append", "update", "complete"]
OUTPUT_MODES = ("append", "update", "complete")
Query = Callable[[], "DataFrame"]
BatchFunction = Callable[["DataFrame", int], None]
"""The escape hatch: called on the driver with every micro-batch and its number."""


@dataclass(frozen=True)
class Output:
    """A topic that a flow writes."""

    topic: str
    key: tuple[str, ...] = ()
    value: ValueFormat = "json"
    is_table: bool = False
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    registered: RegisteredSchema | None = None
    key_format: str | None = None
    """The format of keys with a schema of the registry; None: text."""
    registered_key: RegisteredSchema | None = None

    @property
    def has_schemas(self) -> bool:
        """Whether keys or values are written with a schema of the registry."""
        return self.registered is not None or self.registered_key is not None


def output_of(
    topic: str,
    *,
    key: str | Sequence[str] | None,
    key_format: str,
    key_schema: str | int | None,
    value: ValueFormat,
    schema: str | int | None,
    registry: str | None,
    subject: str | None,
    record_name: str | None,
    is_table: bool,
    partitions: int | None,
    config: Mapping[str, str] | None,
) -> Output:
    """The output that these options describe (App.to explains them). AppError for the first wrong one."""
    columns = key_columns(key)
    registered_key = written_key(topic, key_format, key_schema, columns, registry)
    is_keys_registry = registered_key is not None and value not in SCHEMA_FORMATS
    registered = written_schema(
        topic, value, schema, None if is_keys_registry else registry, subject, record_name
    )
    if partitions is not None and partitions < 1:
        raise AppError(f"{topic}: partitions={partitions} makes no topic")
    return Output(
        topic,
        columns,
        value,
        is_table,
        partitions,
        dict(config or {}),
        registered,
        None if registered_key is None else key_format,
        registered_key,
    )


@dataclass(frozen=True)
class Flow:
    """One query of an app, with a name, a checkpoint and an output of its own."""

    app_name: str
    name: str
    query: Query
    output: Output | BatchFunction
    mode: OutputMode | None = None
    trigger: str | None = None
    """From one micro-batch to the next, such as "10 seconds"; None: as soon as there is something."""

    def __call__(self) -> DataFrame:
        """The flow's DataFrame."""
        return self.query()

    @property
    def group(self) -> str:
        """The consumer group with the flow's offsets; also its query's name and transactional id."""
        return group_of(self.app_name, self.name)

    @property
    def target(self) -> str:
        """The output, as text."""
        if isinstance(self.output, Output):
            return self.output.topic
        return f"{getattr(self.output, '__name__', 'a function')}()"

    def rows(self) -> DataFrame:
        """Call the function. AppError if its result is no DataFrame for a flow."""
        from pyspark.sql import DataFrame

        rows = self.query()
        if not isinstance(rows, DataFrame):
            raise AppError(f"flow {self.name} gives {type(rows).__name__}: it must return a DataFrame")
        if not rows.isStreaming:
            raise AppError(
                f"flow {self.name} gives a batch: it must read something with .stream(), and not only "
                ".table() or .read()"
            )
        return rows

    def output_mode(self, rows: DataFrame) -> OutputMode:
        """The requested mode; else append, and for a table update wherever Spark supports it."""
        if self.mode is not None:
            return self.mode
        is_table = isinstance(self.output, Output) and self.output.is_table
        return "update" if is_table and not joins_streams(rows) else "append"


def joins_streams(rows: DataFrame) -> bool:
    """Whether two streams are joined, which Spark supports in append mode only."""
    waiting = [rows._jdf.queryExecution().analyzed()]
    while waiting:
        plan = waiting.pop()
        children = plan.children()
        inner = [children.apply(index) for index in range(children.size())]
        if plan.nodeName() == "Join" and all(each.isStreaming() for each in inner):
            return True
        waiting += inner
    return False
