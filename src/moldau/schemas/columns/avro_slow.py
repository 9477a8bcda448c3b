"""Avro records one at a time by fastavro."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from moldau.schemas.columns.avro_tree import AvroType, avro_tree
from moldau.schemas.columns.avro_types import not_null
from moldau.schemas.columns.errors import UnknownSchema
from moldau.schemas.schema import ParsedSchema

HEADER = struct.Struct(">bI")
_EXACT = Context(prec=77)


class SlowDecoder:
    """A record at a time."""

    def __init__(
        self,
        root: AvroType,
        reader: ParsedSchema,
        schema_by_id: Callable[[int], ParsedSchema],
        problems: dict[int, str],
    ) -> None:
        self._root, self._schema_by_id, self._problems = root, schema_by_id, problems
        self._reader = raw_schema(reader)
        self._writers: dict[int, tuple[Any, AvroType] | None] = {}

    def row(self, data: bytes) -> dict[str, Any] | None:
        """The row of a record; None if it is bad."""
        import fastavro

        if len(data) < HEADER.size or data[0] != 0:
            return None
        writer = self._writer(HEADER.unpack_from(data)[1])
        if writer is None:
            return None
        stream = io.BytesIO(data[HEADER.size :])
        try:
            value = fastavro.schemaless_reader(stream, writer[0], self._reader, return_record_name=True)
            if stream.read(1):
                return None
            shaped = spark_value(self._root, value)
        except Exception:
            return None
        return shaped if not_null(self._root)[0].kind == "record" else {"value": shaped}

    def _writer(self, schema_id: int) -> tuple[Any, AvroType] | None:
        if schema_id not in self._writers:
            try:
                parsed = self._schema_by_id(schema_id)
                self._writers[schema_id] = raw_schema(parsed), avro_tree(parsed)
            except UnknownSchema as error:
                self._problems[schema_id] = str(error)
                self._writers[schema_id] = None
        return self._writers[schema_id]


def raw_schema(parsed: ParsedSchema) -> Any:
    """The schema for fastavro without logical types: values stay what is on the wire."""
    import fastavro

    return fastavro.parse_schema(_without_logical(json.loads(parsed.formatted("resolved"))))


def _without_logical(source: Any) -> Any:
    if isinstance(source, list):
        return [_without_logical(each) for each in source]
    if not isinstance(source, dict):
        return source
    return {
        name: value if name == "default" else _without_logical(value)
        for name, value in source.items()
        if name != "logicalType"
    }


def spark_value(type_: AvroType, value: Any) -> Any:
    """What fastavro read -> what the column has."""
    bare, _ = not_null(type_)
    if value is None:
        return None
    if bare.kind == "record":
        fields = value[1] if isinstance(value, tuple) else value
        return {each.name: spark_value(each.type, fields[each.name]) for each in bare.fields}
    if bare.kind == "union":
        for index, branch in enumerate(bare.branches):
            if _is_of(branch, value):
                return {f"member{index}": spark_value(branch, value)}
        raise ValueError("no branch")
    if bare.kind == "array":
        assert bare.items is not None
        return [spark_value(bare.items, each) for each in value]
    if bare.kind == "map":
        assert bare.items is not None
        return [(key, spark_value(bare.items, each)) for key, each in value.items()]
    if bare.logical is None:
        return value
    if bare.logical.name == "decimal":
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-bare.logical.scale, _EXACT)
    return value * 1000 if bare.logical.name.endswith("millis") else value


_PYTHON = {
    "boolean": bool, "int": int, "long": int, "float": float, "double": float, "bytes": bytes,
    "fixed": bytes, "string": str, "enum": str, "array": list, "map": dict, "record": dict,
}  # fmt: skip


def _is_of(branch: AvroType, value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(branch.name == value[0])
    if branch.kind == "enum":
        return value in branch.symbols
    return type(value) is _PYTHON[branch.kind]
