"""InsertField: fields of a record's topic, partition, offset, timestamp, or with a value of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from moldau.connect.arrow_types import arrow_type
from moldau.connect.batch import Batch, Column
from moldau.connect.errors import BadRecord, ConnectError
from moldau.connect.schema import TIMESTAMP, Field, Schema, Type, logical_schema
from moldau.connect.settings import Setting, SettingType
from moldau.connect.structs import fields_of, struct_of
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    SideTransform,
    all_bad,
    require_map,
    require_struct,
    sides,
)

PURPOSE = "field insertion"
_WHAT = {
    "topic.field": "the topic",
    "partition.field": "the partition in Kafka",
    "offset.field": "the offset in Kafka (of sinks only)",
    "timestamp.field": "the record's timestamp",
    "static.field": "static.value",
}
_SCHEMAS = {
    "topic.field": Schema(Type.STRING),
    "partition.field": Schema(Type.INT32),
    "offset.field": Schema(Type.INT64),
    "timestamp.field": logical_schema(TIMESTAMP),
    "static.field": Schema(Type.STRING),
}


class _Inserted(NamedTuple):
    source: str
    name: str
    optional: bool


class InsertField(SideTransform):
    """Adds fields with metadata of the record, or a value of one's own."""

    settings: ClassVar[Sequence[Setting]] = (
        *(
            Setting(
                name,
                SettingType.STRING,
                f"The field for {what}. A ! behind it makes it required, a ? (the default) optional.",
                None,
            )
            for name, what in _WHAT.items()
        ),
        Setting("static.value", SettingType.STRING, "The value of static.field.", None),
        REPLACE_NULL,
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: nothing to insert, or a field without its value."""
        super().configure(settings)
        self._inserted = [
            _inserted(name, str(settings[name])) for name in _WHAT if settings.get(name) is not None
        ]
        if not self._inserted:
            raise ConnectError("No field insertion configured")
        if settings.get("static.field") is not None and settings.get("static.value") is None:
            raise ConnectError("No value specified for static field: static.value")
        self._static = settings.get("static.value")
        self._added: list[dict[str, Any]] | None = None

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        if batch.offsets is None and any(each.source == "offset.field" for each in self._inserted):
            reason = (
                "Only SinkRecord supported for [field insertion], found: "
                "org.apache.kafka.connect.source.SourceRecord"
            )
            raise BadRecord(reason, 0)
        self._added = None
        return super().apply(batch)

    def maps(self, values: list[dict[str, Any]], batch: Batch) -> list[Any] | None:
        """See SideTransform."""
        made = list(map(dict.copy, values))
        for each in self._inserted:
            name = each.name
            if each.source == "timestamp.field":
                column = batch.timestamps_ms
            elif each.source == "offset.field" and batch.offsets is not None:
                column = batch.offsets
            else:
                found = self._value(each.source, batch)
                for value in made:
                    value[name] = found
                continue
            for value, found in zip(made, column.to_pylist(), strict=True):
                value[name] = found
        return made

    def _values(self, batch: Batch) -> list[dict[str, Any]]:
        """What is added to each record that has no schema."""
        names = [each.name for each in self._inserted]
        columns: list[Iterable[Any]] = []
        for each in self._inserted:
            if each.source == "timestamp.field":
                columns.append(batch.timestamps_ms.to_pylist())
            elif each.source == "offset.field" and batch.offsets is not None:
                columns.append(batch.offsets.to_pylist())
            else:
                columns.append(repeat(self._value(each.source, batch), len(batch)))
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        if self._added is None:
            self._added = self._values(batch)
        return {**require_map(value, PURPOSE), **self._added[row]}

    def _value(self, source: str, batch: Batch) -> Any:
        if source == "topic.field":
            return batch.topic
        return _partition(batch) if source == "partition.field" else self._static

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        require_struct(schema, array, PURPOSE)
        fields, columns = list(schema.fields), fields_of(array)
        for each in self._inserted:
            if any(field.name == each.name for field in fields):
                raise all_bad(array, f"Cannot create field because of field name duplication {each.name}")
            made = replace(_SCHEMAS[each.source], optional=each.optional)
            fields.append(Field(each.name, made))
            columns.append(self._column(each.source, arrow_type(made), batch))
        result = replace(schema, fields=tuple(fields))
        return Column(result, struct_of(result, columns, array, len(array)))

    def _column(self, source: str, kind: pa.DataType, batch: Batch) -> pa.Array:
        if source == "timestamp.field":
            return batch.timestamps_ms.view(kind)
        if source == "offset.field" and batch.offsets is not None:
            return batch.offsets
        return pa.repeat(pa.scalar(self._value(source, batch), kind), len(batch))


def _inserted(source: str, text: str) -> _Inserted:
    if text.endswith(("!", "?")):
        return _Inserted(source, text[:-1], text.endswith("?"))
    return _Inserted(source, text, True)


def _partition(batch: Batch) -> int | None:
    return batch.partition if batch.origin is None else batch.origin.partition


InsertFieldKey, InsertFieldValue = sides(InsertField)
