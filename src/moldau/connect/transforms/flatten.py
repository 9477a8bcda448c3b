"""Flatten: fields of fields become fields, with both names.

{"a": {"b": 1}, "c": [1]}   ->   {"a.b": 1, "c": [1]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.schema import Field, Schema, Type
from moldau.connect.settings import Setting, SettingType
from moldau.connect.structs import fields_of, struct_of
from moldau.connect.transforms.base import (
    RowError,
    SideTransform,
    all_bad,
    require_map,
    require_struct,
    sides,
)

PURPOSE = "flattening"
DEPTH_MAX = 500


class Flatten(SideTransform):
    """Makes a nested record flat."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("delimiter", SettingType.STRING, "What stands between the names.", "."),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """See Transform."""
        super().configure(settings)
        delimiter = settings.get("delimiter")
        self._delimiter = "." if delimiter is None else str(delimiter)

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        made: dict[str, Any] = {}
        self._flatten(require_map(value, PURPOSE), "", made, 0)
        return made

    def _flatten(self, value: dict[str, Any], prefix: str, made: dict[str, Any], depth: int) -> None:
        if depth > DEPTH_MAX:
            raise RowError(f"the value is nested deeper than {DEPTH_MAX}")
        for name, each in value.items():
            full = f"{prefix}{self._delimiter}{name}" if depth else str(name)
            if isinstance(each, dict):
                self._flatten(each, full, made, depth + 1)
            else:
                made[full] = each

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        require_struct(schema, array, PURPOSE)
        found: list[tuple[str, Schema, pa.Array]] = []
        self._collect(schema, array, "", schema.optional, schema.default, found)
        names = [name for name, _, _ in found]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise all_bad(array, f"Cannot create field because of field name duplication {name}")
        made = replace(schema, default=None, fields=tuple(Field(name, kind) for name, kind, _ in found))
        return Column(made, struct_of(made, [each for _, _, each in found], array, len(array)))

    def _collect(
        self,
        schema: Schema,
        array: pa.Array,
        prefix: str,
        optional: bool,
        default: Any,
        found: list[tuple[str, Schema, pa.Array]],
    ) -> None:
        """`optional`: a record around may be null. `default`: what a record around has for these fields."""
        for each, column in zip(schema.fields, fields_of(array), strict=True):
            name = f"{prefix}{self._delimiter}{each.name}" if prefix else each.name
            own = each.schema.default
            if own is None and isinstance(default, dict):
                own = default.get(each.name)
            may_be_null = optional or each.schema.optional
            if each.schema.type is Type.STRUCT:
                self._collect(each.schema, column, name, may_be_null, own, found)
            elif each.schema.type is Type.MAP:
                raise all_bad(
                    array,
                    "Flatten transformation does not support MAP for record with schemas "
                    f"(for field {name}).",
                )
            else:
                found.append((name, replace(each.schema, optional=may_be_null, default=own), column))


FlattenKey, FlattenValue = sides(Flatten)
