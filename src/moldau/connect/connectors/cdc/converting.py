"""A database's values -> values of a table's columns; a row with a value that has none is refused, not the
stream.

    event.converting.failure.handling.mode=fail    the row is refused: `errors.tolerance` decides
                                          warn     null in the place of the value, and a line in the log
                                          skip     null, and no word; both where the column may be null

A refused row names table, column and key, and its dead letter has the values as the database wrote them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.errors import BadRecord, ConnectError
from moldau.connect.schema import Schema
from moldau.connect.source import Refused

_LOG = logging.getLogger(__name__)
FAILURES = (ConnectError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError)
"""What conversions raise at a value that is not as they know it."""
FAILURE_MODES = ("fail", "warn", "skip")


class Unchanged:
    """A value stored aside (TOAST) that an update did not touch, and the log does not have."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()


class CapturedColumn(NamedTuple):
    """A column of a captured table. `convert`: the database's value -> one of the schema."""

    name: str
    schema: Schema
    convert: Callable[[Any], Any] | None
    missing: Any
    """What stands for a value that the database did not log (unchanged TOAST); None: nothing can."""
    on_failure: str = "fail"
    """`event.converting.failure.handling.mode`."""


class Unreadable(Exception):
    """A value of this column has none in records."""

    def __init__(self, column: CapturedColumn, value: Any, reason: str) -> None:
        self.column, self.value, self.reason = column, value, reason
        super().__init__(reason)


def converted(columns: Sequence[CapturedColumn], given: Sequence[Any]) -> list[Any]:
    """A row's values; UNCHANGED becomes what stands for it. Unreadable."""
    try:
        return [
            None
            if value is None
            else value
            if value is UNCHANGED or column.convert is None
            else column.convert(value)
            for column, value in zip(columns, given, strict=True)
        ]
    except FAILURES:
        return [converted_value(column, value) for column, value in zip(columns, given, strict=True)]


def converted_value(column: CapturedColumn, value: Any) -> Any:
    """One value. Unreadable."""
    if value is None or value is UNCHANGED or column.convert is None:
        return value
    try:
        return column.convert(value)
    except FAILURES as error:
        return null_instead(column, value, str(error) or type(error).__name__)


def null_instead(column: CapturedColumn, value: Any, reason: str) -> None:
    """Null, where the settings and the column allow it. Unreadable."""
    if column.on_failure == "fail" or not column.schema.optional:
        raise Unreadable(column, value, reason)
    if column.on_failure == "warn":
        _LOG.warning("column %s: null instead of %.100r: %s", column.name, value, reason)


def with_placeholders(columns: Sequence[CapturedColumn], row: Sequence[Any]) -> list[Any]:
    """The row with what stands for values that the log does not have. Unreadable where nothing can."""
    return [
        value if value is not UNCHANGED else _placeholder(column)
        for column, value in zip(columns, row, strict=True)
    ]


def _placeholder(column: CapturedColumn) -> Any:
    if column.missing is not None:
        return column.missing
    return null_instead(
        column,
        UNCHANGED,
        "it was not changed, is stored aside (TOAST), and so is not in the log; nothing can stand for it. "
        "ALTER TABLE ... REPLICA IDENTITY FULL has it logged",
    )


def refusal(
    topic: str,
    table: str,
    error: Unreadable | BadRecord,
    op: str,
    key: Mapping[str, Any] | None,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> Refused:
    """A change of a row that is no record, as the database has it."""
    where = f"table {table}" + (f", key {_shown(key)}" if key else "")
    if isinstance(error, Unreadable):
        column = error.column
        value = "the value" if error.value is UNCHANGED else f"the value {_cut(str(error.value))!r}"
        said = (
            f"{where}: {value} of column {column.name} cannot be a "
            f"{column.schema.name or column.schema.type.value}: {error.reason}"
        )
    else:
        said = f"{where}: {error}"
    advice = (
        "have null in its place (event.converting.failure.handling.mode=warn), leave the column out "
        "(column.exclude.list), or such rows (errors.tolerance=all)"
        if isinstance(error, Unreadable) and error.column.schema.optional
        else "leave the column out (column.exclude.list), or such rows (errors.tolerance=all)"
    )
    change = {"op": op, "before": before, "after": after}
    batch = Batch(topic, Column(None, [key]), Column(None, [change]), pa.nulls(1, pa.int64()))
    return Refused(batch, BadRecord(f"{said}. Or {advice}"))


def _shown(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_cut(str(value))}" for name, value in key.items())


def _cut(text: str) -> str:
    return text if len(text) <= 100 else text[:100] + "…"
