"""HoistField: the key or value becomes the only field of a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.schema import Field, Schema, Type
from moldau.connect.settings import REQUIRED, Setting, SettingType
from moldau.connect.structs import runs_of, struct_of
from moldau.connect.transforms.base import SideTransform, sides


class HoistField(SideTransform):
    """Wraps what there is into a field. A tombstone, which has no schema, becomes a map with a null."""

    nulls_pass = False
    fills_defaults = False
    settings: ClassVar[Sequence[Setting]] = (
        Setting("field", SettingType.STRING, "The name of the field.", REQUIRED),
    )

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        column = self.side(batch)
        if isinstance(column.values, list) or not column.values.null_count:
            return super().apply(batch)
        made: list[Batch] = []
        for first, count, is_null in runs_of(column.values.is_null().to_pylist()):
            part = batch.slice(first, count)
            if is_null:
                part = self.with_side(part, Column(None, [None] * count))
            made += super().apply(part)
        return made

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        return {self.config["field"]: value}

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        made = Schema(Type.STRUCT, fields=(Field(str(self.config["field"]), schema),))
        return Column(made, struct_of(made, [array], None, len(array)))


HoistFieldKey, HoistFieldValue = sides(HoistField)
