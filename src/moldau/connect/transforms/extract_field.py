"""ExtractField: a field becomes the key or value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.schema import Schema, Type
from moldau.connect.settings import REQUIRED, Setting, SettingType
from moldau.connect.structs import fields_of
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
from moldau.connect.transforms.field_path import SYNTAX, path_of

PURPOSE = "field extraction"


class ExtractField(SideTransform):
    """Takes one field out of a record and leaves the rest."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("field", SettingType.STRING, "The field's name.", REQUIRED),
        REPLACE_NULL,
        SYNTAX,
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: the path is none."""
        super().configure(settings)
        self._path = path_of(str(settings["field"]), settings.get("field.syntax.version"))

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        found: Any = require_map(value, PURPOSE)
        for name in self._path[:-1]:
            found = found.get(name)
            if found is None:
                return None
            if not isinstance(found, dict):
                raise RowError(
                    f"Only Map objects supported in absence of schema for [nested field access], found: "
                    f"{java_class(found)}"
                )
        return found.get(self._path[-1])

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        require_struct(schema, array, PURPOSE)
        for name in self._path:
            if schema.type is not Type.STRUCT:
                raise all_bad(array, "Cannot look up fields on non-struct type")
            index = next((i for i, each in enumerate(schema.fields) if each.name == name), None)
            if index is None:
                raise all_bad(array, f"Unknown field: {self.config['field']}")
            schema, array = schema.fields[index].schema, fields_of(array)[index]
        return Column(schema, array)


ExtractFieldKey, ExtractFieldValue = sides(ExtractField)
