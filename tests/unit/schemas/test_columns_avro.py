"""Avro records <-> columns: every type, evolution, and records that are damaged."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from moldau.schemas.columns import Decoder, Encoder, UnknownSchema, schema_of_arrow, spark_types
from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType


def avro(source: Any) -> ParsedSchema:
    """A schema, parsed."""
    return parse(SchemaText(SchemaType.AVRO, source if isinstance(source, str) else json.dumps(source)))


def record(*fields: Any, name: str = "Row") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": one[0], "type": one[1]} | ({"default": one[2]} if len(one) > 2 else {}) for one in fields
        ],
    }


def written(schema: Any, value: Any, schema_id: int = 1) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def decoder(reader: Any, **writers: Any) -> Decoder:
    """Schemas by id, as `_1=...`; without any, id 1 is the reader's."""
    known = {int(name[1:]): avro(each) for name, each in writers.items()} or {1: avro(reader)}

    def by_id(schema_id: int) -> Any:
        if schema_id not in known:
            raise UnknownSchema(f"no schema {schema_id}")
        return known[schema_id]

    return Decoder(avro(reader), by_id)


TYPES = record(
    ("b", "boolean"), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("y", "bytes"),
    ("s", "string"),
    ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    ("x", {"type": "fixed", "name": "X", "size": 3}),
    ("dec", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
    ("us", {"type": "long", "logicalType": "local-timestamp-micros"}),
    ("opt", ["null", "string"]),
    ("wide", ["int", "long"]),
    ("many", ["null", "int", "string"]),
    ("list", {"type": "array", "items": ["null", "long"]}),
    ("map", {"type": "map", "values": "double"}),
    ("in", record(("n", "int"), name="Inner")),
)  # fmt: skip

ROW = {
    "b": True, "i": -5, "l": 2**40, "f": 0.5, "d": 0.1, "y": b"\0\xff", "s": "größe", "e": "B", "x": b"abc",
    "dec": Decimal("-12.34"), "day": datetime.date(2026, 11, 23),
    "ms": datetime.datetime(2026, 11, 23, 3, 4, 5, 6000, datetime.UTC),
    "us": datetime.datetime(2026, 11, 23, 3, 4, 5, 6), "opt": None, "wide": 7, "many": "x",
    "list": [1, None, 3], "map": {"k": 1.5}, "in": {"n": 3},
}  # fmt: skip


def test_every_type_as_spark_has_it() -> None:
    assert spark_types(avro(TYPES)).field("wide").type == pa.int64()
    rows, bad = decoder(TYPES).decode(pa.array([written(TYPES, ROW), None, b"\0\0\0\0\1"]))
    assert bad.to_pylist() == [False, False, True]
    assert rows.to_pylist() == [
        ROW | {"many": {"member0": None, "member1": "x"}, "map": [("k", 1.5)]},
        None,
        None,
    ]


def test_a_batch_whose_schema_evolves_has_one_set_of_columns() -> None:
    old = record(("gone", "string"), ("n", "int"))
    new = record(("n", "long"), ("added", "string", "standard"))
    values = [written(old, {"gone": "x", "n": 5}, 1), written(new, {"n": 6, "added": "y"}, 2)]
    rows, bad = decoder(new, _1=old, _2=new).decode(pa.array(values))
    assert rows.to_pylist() == [{"n": 5, "added": "standard"}, {"n": 6, "added": "y"}]
    assert not any(bad.to_pylist())


def test_a_schema_that_nobody_knows_makes_its_records_bad() -> None:
    one = record(("n", "int"))
    asked = decoder(one)
    rows, bad = asked.decode(pa.array([written(one, {"n": 1}, 9), written(one, {"n": 2}, 1)]))
    assert (rows.to_pylist(), bad.to_pylist()) == ([None, {"n": 2}], [True, False])
    assert asked.problems == {9: "no schema 9"}


def test_what_is_encoded_decodes_to_the_same_rows() -> None:
    columns = pa.schema(
        [
            pa.field("s", pa.string()),
            pa.field("n", pa.int64(), nullable=False),
            pa.field("when", pa.timestamp("us", "UTC")),
            pa.field("price", pa.decimal128(12, 3)),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("inner", pa.struct([pa.field("x", pa.float64())])),
        ]
    )
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    rows = [
        {"s": "a", "n": 1, "when": when, "price": Decimal("1.500"), "tags": ["x", None], "inner": {"x": 0.5}},
        {"s": None, "n": 2, "when": None, "price": None, "tags": None, "inner": None},
        None,
    ]
    schema = avro(schema_of_arrow(columns, SchemaType.AVRO, "com.example.Row").text)
    values = Encoder(schema, 1).encode(pa.array(rows, pa.struct(list(columns))))
    found, bad = decoder(schema.canonical).decode(values)
    assert found.to_pylist() == rows
    assert not any(bad.to_pylist())


@pytest.mark.parametrize("value", [b"", b"\0", b"\1\0\0\0\1\2", b"\0\0\0\0\1", b"\0\0\0\0\1\2\0"])
def test_damaged_records_are_bad(value: bytes) -> None:
    rows, bad = decoder(record(("n", "int"))).decode(pa.array([value], pa.binary()))
    assert (rows.to_pylist(), bad.to_pylist()) == ([None], [True])
