"""Cast: fields, or the whole key or value, become another type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.arrow_types import arrow_type
from moldau.connect.batch import Batch, Column
from moldau.connect.errors import BadRecords, ConnectError
from moldau.connect.schema import Field, Schema, Type
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.structs import fields_of, struct_of
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    RowError,
    SideTransform,
    all_bad,
    require_map,
    require_struct,
    sides,
)
from moldau.connect.transforms.casting import SOURCES, TARGETS, cast_array, cast_value

PURPOSE = "cast types"
WHOLE = ""
_SUPPORTED = "supported types are [INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING"


def spec_of(entries: Sequence[str]) -> dict[str, Type]:
    """The types by field; `WHOLE` for all of it. ConnectError."""
    made: dict[str, Type] = {}
    entries = [each.strip() for each in entries if each.strip()]
    if not entries:
        raise ConnectError("Must specify at least one field to cast.")
    for entry in entries:
        before, colon, word = entry.rpartition(":")
        kind = Type.__members__.get(word.strip().upper())
        if kind is None or before.count(":"):
            raise ConnectError(f"Invalid type found in casting spec: {word.strip()}")
        if kind not in TARGETS:
            raise ConnectError(f"Cast transformation does not support casting to {kind.name}; {_SUPPORTED}]")
        made[before.strip() if colon else WHOLE] = kind
    if WHOLE in made and len(made) > 1:
        raise ConnectError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single "
            "cast in their spec"
        )
    return made


def _spec_error(value: Any) -> str | None:
    try:
        spec_of(value or ())
    except ConnectError as error:
        return str(error)
    return None


_INT64 = 1 << 63


class Cast(SideTransform):
    """Changes the types of fields."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "spec",
            SettingType.LIST,
            "field:type, field:type; or one type for the whole. Types: int8, int16, int32, int64, float32, "
            "float64, boolean, string.",
            REQUIRED,
            Importance.HIGH,
            check=_spec_error,
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: the spec is none."""
        super().configure(settings)
        self._casts = spec_of(settings.get("spec") or ())
        self._whole = self._casts.get(WHOLE)

    def maps(self, values: list[dict[str, Any]], batch: Batch) -> list[Any] | None:
        """See SideTransform."""
        if self._whole is not None:
            return None
        made = list(map(dict.copy, values))
        for name, kind in self._casts.items():
            found = [value.get(name) for value in made]
            cast = _at_once(found, kind)
            if cast is None:
                try:
                    cast = [_cast_field(each, kind) for each in found]
                except RowError:
                    return None  # each by itself says which one it is
            for value, each in zip(made, cast, strict=True):
                value[name] = each
        return made

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        if self._whole is not None:
            if isinstance(value, (dict, list)):
                raise RowError(_unsupported(Type.MAP if isinstance(value, dict) else Type.ARRAY))
            return cast_value(value, self._whole)
        made = dict(require_map(value, PURPOSE))
        for name, kind in self._casts.items():
            made[name] = _cast_field(made.get(name), kind)
        return made

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        if self._whole is not None:
            return self._cast(schema, self._whole, array)
        require_struct(schema, array, PURPOSE)
        fields, columns = list(schema.fields), fields_of(array)
        bad: dict[int, str] = {}
        for index, each in enumerate(schema.fields):
            kind = self._casts.get(each.name)
            if kind is not None:
                try:
                    made = self._cast(each.schema, kind, columns[index])
                except BadRecords as error:
                    bad = dict(error.rows) | bad
                    continue
                fields[index], columns[index] = Field(each.name, _required(made.schema)), made.values
        if bad:
            raise BadRecords(sorted(bad.items()))
        result = replace(schema, fields=tuple(fields))
        return Column(result, struct_of(result, columns, array, len(array)))

    def _cast(self, schema: Schema, kind: Type, array: pa.Array) -> Column:
        if schema.type not in SOURCES:
            if array.null_count < len(array):
                raise all_bad(array, _unsupported(schema.type))
            made = Schema(kind, schema.optional)
            return Column(made, pa.nulls(len(array), arrow_type(made)))
        try:
            default = None if schema.default is None else cast_value(schema.default, kind, schema)
        except RowError as error:
            raise all_bad(array, str(error)) from None
        made = Schema(kind, schema.optional, default=default)
        return Column(made, cast_array(schema, kind, array))


def _at_once(values: list[Any], kind: Type) -> list[Any] | None:
    """Values of one Python type, where that is all there is to see to; None: it is not."""
    types = set(map(type, values))
    types.discard(type(None))
    if types == {int} and kind is Type.STRING:
        return [None if each is None else str(each) for each in values]
    if types == {int} and kind is Type.INT64:
        whole = [each for each in values if each is not None]
        return values if min(whole) >= -_INT64 and max(whole) < _INT64 else None
    if types == {str} and kind is Type.STRING:
        return values
    if types <= {float} and kind is Type.FLOAT64:
        return values
    return None


def _cast_field(value: Any, kind: Type) -> Any:
    if isinstance(value, (dict, list)):
        raise RowError(_unsupported(Type.MAP if isinstance(value, dict) else Type.ARRAY))
    return cast_value(value, kind)


def _required(schema: Schema | None) -> Schema:
    if schema is None:
        raise TypeError("a cast column has a schema")
    return schema


def _unsupported(kind: Type) -> str:
    return f"Cast transformation does not support casting from {kind.name}; {_SUPPORTED}, BYTES]"


CastKey, CastValue = sides(Cast)
