"""ValueToKey: the key becomes some fields of the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from moldau.connect.batch import Batch, Column
from moldau.connect.errors import BadRecords, ConnectError
from moldau.connect.schema import Field, Schema, Type
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.structs import fields_of, struct_of, true_rows
from moldau.connect.transform import Transform
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    RowError,
    all_bad,
    require_map,
    require_struct,
)
from moldau.connect.values import completed

PURPOSE = "copying fields from value to key"


class ValueToKey(Transform):
    """Makes the record's key of fields of its value."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("fields", SettingType.LIST, "The fields, in order.", REQUIRED, Importance.HIGH),
        REPLACE_NULL,
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: no fields."""
        super().configure(settings)
        self._fields = list(settings.get("fields") or ())
        if not self._fields:
            raise ConnectError("Invalid value [] for configuration fields: Empty list")

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        schema, values = batch.value.schema, batch.value.values
        if schema is None or isinstance(values, list):
            return [replace(batch, key=Column(None, self._keys(list(values))))]
        if values.null_count:
            reason = f"Only Map objects supported in absence of schema for [{PURPOSE}], found: null"
            raise BadRecords([(row, reason) for row in true_rows(values.is_null())])
        require_struct(schema, values, PURPOSE)
        if self.config.get("replace.null.with.default", True):
            values, _ = completed(schema, values)
        columns = dict(zip((each.name for each in schema.fields), fields_of(values), strict=True))
        fields = []
        for name in self._fields:
            found = schema.field_named(name)
            if found is None:
                raise all_bad(values, f"Field does not exist: {name}")
            fields.append(Field(name, found.schema))
        made = Schema(Type.STRUCT, fields=tuple(fields))
        array = struct_of(made, [columns[name] for name in self._fields], None, len(batch))
        return [replace(batch, key=Column(made, array))]

    def _keys(self, values: list[Any]) -> list[Any]:
        made, bad = [], []
        for row, value in enumerate(values):
            try:
                given = require_map(value, PURPOSE)
                made.append({name: given.get(name) for name in self._fields})
            except RowError as error:
                bad.append((row, str(error)))
        if bad:
            raise BadRecords(bad)
        return made
