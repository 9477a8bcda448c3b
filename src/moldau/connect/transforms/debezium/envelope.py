"""Change events in Debezium's envelope, with schema (its name ends in `.Envelope`) or without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.schema import Schema, Type
from moldau.connect.structs import fields_of

ENVELOPE = ".Envelope"


def is_envelope(schema: Schema | None) -> bool:
    """Whether a value's schema is that of change events."""
    return (
        schema is not None
        and schema.type is Type.STRUCT
        and (schema.name or "").endswith(ENVELOPE)
        and {"after", "op"} <= {each.name for each in schema.fields}
    )


def is_event(value: Any) -> bool:
    """The same of a value without schema."""
    return isinstance(value, dict) and "op" in value and ("after" in value or "before" in value)


class Events(NamedTuple):
    """The columns of change events."""

    schema: Schema
    columns: dict[str, pa.Array]
    schemas: dict[str, Schema]

    @classmethod
    def of(cls, column: Column) -> Events:
        """Of a column for which `is_envelope`."""
        schema = column.schema
        if schema is None:
            raise TypeError("change events have a schema")
        names = [each.name for each in schema.fields]
        return cls(
            schema,
            dict(zip(names, fields_of(column.values), strict=True)),
            {each.name: each.schema for each in schema.fields},
        )

    def at(self, path: Sequence[str]) -> tuple[Schema, pa.Array] | None:
        """A field of it; None: there is none."""
        if path[0] not in self.columns:
            return None
        schema, array = self.schemas[path[0]], self.columns[path[0]]
        for name in path[1:]:
            index = next((i for i, each in enumerate(schema.fields) if each.name == name), None)
            if index is None:
                return None
            schema, array = schema.fields[index].schema, fields_of(array)[index]
        return schema, array


def kinds_of(batch: Batch) -> list[str]:
    """Of each record: "event", "tombstone" or "other"."""
    schema = batch.value.schema
    values = batch.value.values
    if isinstance(values, list):
        return ["tombstone" if each is None else "event" if is_event(each) else "other" for each in values]
    kind = "event" if is_envelope(schema) else "other"
    if not values.null_count:
        return [kind] * len(values)
    return ["tombstone" if null else kind for null in values.is_null().to_pylist()]
