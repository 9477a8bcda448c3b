"""TimestampConverter: a moment as text, as a number, as Date, Time or Timestamp."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.arrow_types import arrow_type, logical_name
from moldau.connect.batch import Batch, Column
from moldau.connect.errors import BadRecords, ConnectError
from moldau.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.structs import fields_of, struct_of
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    RowError,
    SideTransform,
    all_bad,
    java_class,
    require_map,
    require_struct,
    sides,
)
from moldau.connect.transforms.java_dates import JavaDates, NoDate
from moldau.connect.values import logical, physical

PURPOSE = "converting timestamp formats"
DAY_MS = 86_400_000
_TARGETS: dict[str, Schema] = {
    "string": Schema(Type.STRING, True),
    "unix": Schema(Type.INT64, True),
    "Date": Schema(Type.INT32, True, DATE, 1),
    "Time": Schema(Type.INT32, True, TIME, 1),
    "Timestamp": Schema(Type.INT64, True, TIMESTAMP, 1),
}
_PRECISIONS = ("nanoseconds", "microseconds", "milliseconds", "seconds")


class TimestampConverter(SideTransform):
    """Changes how a moment is written."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "field",
            SettingType.STRING,
            "The field with the moment; empty: the whole key or value.",
            "",
            Importance.HIGH,
        ),
        Setting(
            "target.type",
            SettingType.STRING,
            "What it becomes: string, unix (a number), Date, Time or Timestamp.",
            REQUIRED,
            Importance.HIGH,
            choices=tuple(_TARGETS),
        ),
        Setting(
            "format",
            SettingType.STRING,
            "The pattern of texts, read or written (java.text.SimpleDateFormat), in UTC.",
            "",
        ),
        Setting(
            "unix.precision",
            SettingType.STRING,
            "The unit of numbers.",
            "milliseconds",
            Importance.LOW,
            choices=_PRECISIONS,
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: the settings do not go together."""
        super().configure(settings)
        self._field = str(settings.get("field") or "")
        wanted = str(settings["target.type"])
        if wanted not in _TARGETS:
            raise ConnectError(
                f"Invalid value {wanted} for configuration target.type: one of {list(_TARGETS)}"
            )
        self._target, self._schema = wanted, _TARGETS[wanted]
        pattern = str(settings.get("format") or "")
        if wanted == "string" and not pattern.strip():
            raise ConnectError(
                "TimestampConverter requires format option to be specified when using string timestamps"
            )
        self._dates = JavaDates(pattern) if pattern.strip() else None
        self._precision = str(settings.get("unix.precision") or "milliseconds").lower()

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        if not self._field:
            return self._converted(value)
        made = dict(require_map(value, PURPOSE))
        made[self._field] = self._converted(made.get(self._field))
        return made

    def _converted(self, value: Any) -> Any:
        if value is None:
            return None
        made = self._from_ms(self._to_ms(value))
        try:
            return logical(self._schema, made)
        except OverflowError:
            raise RowError(f"{value} is outside of the years 1 to 9999") from None

    def _to_ms(self, value: Any) -> int:
        if isinstance(value, str):
            if self._dates is None:
                raise RowError(
                    "TimestampConverter requires format option to be specified when using string timestamps"
                )
            try:
                return self._dates.milliseconds_of(value)
            except NoDate:
                raise RowError(
                    "Could not parse timestamp: value "
                    f"({value}) does not match pattern ({self._dates.pattern})"
                ) from None
        if isinstance(value, int) and not isinstance(value, bool):
            return _scaled_to_ms(value, self._precision)
        if isinstance(value, datetime.datetime):
            return int(physical(_TARGETS["Timestamp"], value))
        if isinstance(value, datetime.date):
            return int(physical(_TARGETS["Date"], value)) * DAY_MS
        if isinstance(value, datetime.time):
            return int(physical(_TARGETS["Time"], value))
        raise RowError(f"TimestampConverter does not support class {java_class(value)} objects as timestamps")

    def _from_ms(self, ms: int) -> Any:
        """The number (or text) of the target."""
        if self._target == "string" and self._dates is not None:
            try:
                return self._dates.text_of(ms)
            except OverflowError:
                raise RowError(f"{ms} ms is outside of the years 1 to 9999") from None
        if self._target == "Date":
            return ms // DAY_MS
        if self._target == "Time":
            return ms % DAY_MS
        return ms if self._target == "Timestamp" else _scaled_from_ms(ms, self._precision)

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        if not self._field:
            return self._convert(schema, array)
        require_struct(schema, array, PURPOSE)
        index = next((i for i, each in enumerate(schema.fields) if each.name == self._field), None)
        if index is None:
            return Column(schema, array)
        columns, fields = fields_of(array), list(schema.fields)
        made = self._convert(fields[index].schema, columns[index])
        columns[index], fields[index] = (
            made.values,
            Field(self._field, self._made_schema(fields[index].schema)),
        )
        result = replace(schema, fields=tuple(fields))
        return Column(result, struct_of(result, columns, array, len(array)))

    def _made_schema(self, schema: Schema) -> Schema:
        return self._schema.as_optional(schema.optional)

    def _convert(self, schema: Schema, array: pa.Array) -> Column:
        made, kind = self._made_schema(schema), arrow_type(self._schema)
        name = logical_name(schema)
        if name == DECIMAL or (name is None and schema.type not in (Type.STRING, Type.INT64)):
            raise all_bad(
                array, f"Schema {_shown(schema)} does not correspond to a known timestamp type format"
            )
        if name == TIMESTAMP and self._target == "Timestamp":
            return Column(made, array)
        if name == TIMESTAMP and self._target == "unix" and self._precision == "milliseconds":
            return Column(made, array.view(pa.int64()))
        in_ms = name is None and schema.type is Type.INT64 and self._precision == "milliseconds"
        if in_ms and self._target == "Timestamp":
            return Column(made, array.view(kind))
        if pa.types.is_temporal(array.type):
            array = array.view(pa.int64() if schema.type is Type.INT64 else pa.int32())
        values: list[Any] = []
        bad: list[tuple[int, str]] = []
        for row, value in enumerate(array.to_pylist()):
            try:
                if value is None:
                    values.append(None)
                    continue
                ms = (
                    value
                    if name in (TIME, TIMESTAMP)
                    else value * DAY_MS
                    if name == DATE
                    else self._to_ms(value)
                )
                values.append(self._from_ms(ms))
            except RowError as error:
                bad.append((row, str(error)))
        if bad:
            raise BadRecords(bad)
        return Column(made, pa.array(values, kind))


def _shown(schema: Schema) -> str:
    return f"Schema{{{f'{schema.name}:' if schema.name else ''}{schema.type.name}}}"


def _scaled_to_ms(value: int, precision: str) -> int:
    if precision == "seconds":
        return value * 1000
    return value // {"milliseconds": 1, "microseconds": 1000, "nanoseconds": 1_000_000}[precision]


def _scaled_from_ms(ms: int, precision: str) -> int:
    if precision == "seconds":
        return int(ms / 1000) if abs(ms) < 1 << 52 else ms // 1000
    return ms * {"milliseconds": 1, "microseconds": 1000, "nanoseconds": 1_000_000}[precision]


TimestampConverterKey, TimestampConverterValue = sides(TimestampConverter)
