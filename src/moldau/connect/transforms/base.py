"""Transforms of a record's key or value: the same code for both sides, with and without a schema."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.errors import BadRecord, BadRecords
from moldau.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.structs import true_rows
from moldau.connect.transform import Transform
from moldau.connect.values import completed

REPLACE_NULL = Setting(
    "replace.null.with.default",
    SettingType.BOOLEAN,
    "A null in a field that has a default is taken for that default; false: it is null.",
    True,
    Importance.MEDIUM,
)
_JAVA_CLASSES = {
    bool: "java.lang.Boolean",
    int: "java.lang.Long",
    float: "java.lang.Double",
    str: "java.lang.String",
    bytes: "[B",
    list: "java.util.ArrayList",
    dict: "java.util.HashMap",
    Decimal: "java.math.BigDecimal",
    datetime.date: "java.util.Date",
    datetime.time: "java.util.Date",
    datetime.datetime: "java.util.Date",
    type(None): "null",
}
_JAVA_TYPES = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
    Type.INT64: "java.lang.Long",
    Type.FLOAT32: "java.lang.Float",
    Type.FLOAT64: "java.lang.Double",
    Type.BOOLEAN: "java.lang.Boolean",
    Type.STRING: "java.lang.String",
    Type.BYTES: "[B",
    Type.ARRAY: "java.util.ArrayList",
    Type.MAP: "java.util.HashMap",
    Type.STRUCT: "org.apache.kafka.connect.data.Struct",
}


class RowError(ValueError):
    """One value cannot be transformed; the message says why."""


def java_class(value: Any) -> str:
    """The class that Kafka names in messages."""
    return _JAVA_CLASSES.get(type(value), type(value).__name__)


def java_class_of(schema: Schema) -> str:
    """The same by schema."""
    if schema.name in (DATE, TIME, TIMESTAMP):
        return "java.util.Date"
    return "java.math.BigDecimal" if schema.name == DECIMAL else _JAVA_TYPES[schema.type]


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    """The value, if it is a map. RowError."""
    if not isinstance(value, dict):
        raise RowError(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {java_class(value)}"
        )
    return value


def all_bad(array: Any, reason: str) -> BadRecord:
    """What to raise where no value can be transformed; of null rows nothing is said."""
    rows = true_rows(array.is_valid())
    return BadRecords([(row, reason) for row in rows]) if rows else BadRecord(reason, 0)


def require_struct(schema: Schema, array: pa.Array, purpose: str) -> None:
    """BadRecords unless the column has fields."""
    if schema.type is not Type.STRUCT:
        raise all_bad(array, f"Only Struct objects supported for [{purpose}], found: {java_class_of(schema)}")


class SideTransform(Transform):
    """Base of transforms of a key or value; `sides` makes the two classes of it."""

    is_key: ClassVar[bool] = False
    nulls_pass: ClassVar[bool] = True
    """Tombstones are left as they are."""
    fills_defaults: ClassVar[bool] = True
    """`replace.null.with.default` is about all fields."""

    def side(self, batch: Batch) -> Column:
        """What is transformed."""
        return batch.key if self.is_key else batch.value

    def with_side(self, batch: Batch, column: Column) -> Batch:
        """The batch with another key or value."""
        return replace(batch, key=column) if self.is_key else replace(batch, value=column)

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        column = self.side(batch)
        if not len(column):
            return []
        if column.schema is None or isinstance(column.values, list):
            values = column.values if isinstance(column.values, list) else list(column.values)
            made = self.maps(values, batch) if _all_maps(values) else None
            return [self.with_side(batch, Column(None, self._each(values, batch) if made is None else made))]
        array = column.values
        if self.nulls_pass and array.null_count == len(array):
            return [batch]
        if self.fills_defaults and self.config.get("replace.null.with.default", True):
            array, _ = completed(column.schema, array)
        return [self.with_side(batch, self.column(column.schema, array, batch))]

    def _each(self, values: list[Any], batch: Batch) -> list[Any]:
        made: list[Any] = []
        bad: list[tuple[int, str]] = []
        for row, value in enumerate(values):
            if value is None and self.nulls_pass:
                made.append(None)
                continue
            try:
                made.append(self.value(value, row, batch))
            except RowError as error:
                bad.append((row, str(error)))
        if bad:
            raise BadRecords(bad)
        return made

    def maps(self, values: list[dict[str, Any]], batch: Batch) -> list[Any] | None:
        """Values without schema that are all maps, at once; None: each by itself (`value`), also where one of
        them is refused. The given maps stay as they are."""
        return None

    @abstractmethod
    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """A value without schema. RowError."""

    @abstractmethod
    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """A column with schema; null rows stay null. BadRecords."""


def _all_maps(values: list[Any]) -> bool:
    return set(map(type, values)) == {dict}


def sides(base: type[SideTransform]) -> tuple[type[SideTransform], type[SideTransform]]:
    """The class for keys and that for values (Kafka's `X$Key` and `X$Value`)."""
    common = {"__doc__": base.__doc__, "__module__": base.__module__}
    return (
        type(f"{base.__name__}Key", (base,), {**common, "is_key": True}),
        type(f"{base.__name__}Value", (base,), {**common, "is_key": False}),
    )
