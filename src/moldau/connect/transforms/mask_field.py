"""MaskField: a field's value becomes that of its type which says nothing (0, "", false, no items), or one of
one's own."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import arrow_type, logical_name
from moldau.connect.batch import Batch, Column
from moldau.connect.errors import ConnectError
from moldau.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.structs import fields_of, struct_of
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    RowError,
    SideTransform,
    all_bad,
    java_class,
    java_class_of,
    require_map,
    require_struct,
    sides,
)

PURPOSE = "mask fields"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LOGICAL: dict[str, Any] = {
    DECIMAL: Decimal(0),
    DATE: _EPOCH.date(),
    TIME: datetime.time(),
    TIMESTAMP: _EPOCH,
}
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_EMPTY: dict[Type, Any] = {
    **dict.fromkeys(_BITS, 0),
    Type.FLOAT32: 0.0,
    Type.FLOAT64: 0.0,
    Type.BOOLEAN: False,
    Type.STRING: "",
    Type.ARRAY: [],
    Type.MAP: [],
}
_EMPTY_OF: dict[type, Any] = {
    bool: False, int: 0, float: 0.0, str: "", list: [], dict: {}, Decimal: Decimal(0),
    datetime.date: _EPOCH.date(), datetime.time: datetime.time(), datetime.datetime: _EPOCH,
}  # fmt: skip


class MaskField(SideTransform):
    """Hides the values of fields."""

    nulls_pass = False
    settings: ClassVar[Sequence[Setting]] = (
        Setting("fields", SettingType.LIST, "The fields to mask.", REQUIRED, Importance.HIGH),
        Setting(
            "replacement",
            SettingType.STRING,
            "What stands there instead, in fields of numbers and texts.",
            None,
            Importance.LOW,
            check=lambda value: "String must be non-empty" if value == "" else None,
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """See Transform."""
        super().configure(settings)
        self._fields = list(settings.get("fields") or ())
        self._replacement = settings.get("replacement")
        if self._replacement == "":
            raise ConnectError("Invalid value  for configuration replacement: String must be non-empty")

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        given = require_map(value, PURPOSE)
        return given | {name: self._masked(given.get(name)) for name in self._fields}

    def _masked(self, value: Any) -> Any:
        if value is None:
            return None
        kind = type(value)
        if self._replacement is None:
            if kind not in _EMPTY_OF:
                raise RowError(f"Cannot mask value of type: class {java_class(value)}")
            return _EMPTY_OF[kind]
        if kind is str:
            return self._replacement
        if kind not in (int, float, Decimal):
            raise RowError(f"Cannot mask value of type class {java_class(value)} with custom replacement.")
        try:
            return kind(self._replacement)
        except (ValueError, InvalidOperation):
            raise RowError(_unable(self._replacement)) from None

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        require_struct(schema, array, PURPOSE)
        columns = fields_of(array)
        for index, each in enumerate(schema.fields):
            if each.name in self._fields:
                try:
                    mask = self._mask(each.schema)
                except RowError as error:
                    if columns[index].null_count == len(array):
                        continue
                    raise all_bad(array, str(error)) from None
                kind = arrow_type(each.schema)
                masked = pa.repeat(pa.scalar(mask, kind), len(array))
                if columns[index].null_count:
                    masked = pc.if_else(columns[index].is_valid(), masked, pa.scalar(None, kind))
                columns[index] = masked
        return Column(schema, struct_of(schema, columns, array, len(array)))

    def _mask(self, schema: Schema) -> Any:
        name = logical_name(schema)
        if self._replacement is None:
            if name is not None:
                return _LOGICAL[name]
            if schema.type not in _EMPTY:
                raise RowError(f"Cannot mask value of type: class {java_class_of(schema)}")
            return _EMPTY[schema.type]
        text = self._replacement
        try:
            if name == DECIMAL:
                return Decimal(text)
            if name is None and schema.type in _BITS:
                number, half = int(text), 1 << (_BITS[schema.type] - 1)
                if -half <= number < half:
                    return number
                raise ValueError
            if schema.type in (Type.FLOAT32, Type.FLOAT64):
                return float(text)
        except (ValueError, InvalidOperation):
            raise RowError(_unable(text)) from None
        if schema.type is Type.STRING:
            return text
        raise RowError(f"Cannot mask value of type class {java_class_of(schema)} with custom replacement.")


def _unable(text: str) -> str:
    return f"Unable to convert {text} (class java.lang.String) to a number"


MaskFieldKey, MaskFieldValue = sides(MaskField)
