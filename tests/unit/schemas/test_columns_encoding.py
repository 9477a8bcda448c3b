"""Columns -> records in the three languages: what is written reads back the same, by us and by the libraries
of each; both kernels write the same bytes; what does not fit is named.
"""

from __future__ import annotations

import datetime
import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import jsonschema
import pyarrow as pa
import pytest
from avro_oracle import raw_schema
from avro_random import Schemas
from google.protobuf.message_factory import GetMessageClass
from protobuf_random import fill, random_schema

from moldau.schemas.columns import Decoder, Encoder, NotEncodable, encode_kernel, schema_of_arrow, spark_types
from moldau.schemas.columns.protobuf_types import message_of
from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType
from moldau.schemas.wire import pack_header


def avro(*fields: Any) -> ParsedSchema:
    made = [
        {"name": one[0], "type": one[1]} | ({"default": one[2]} if len(one) > 2 else {}) for one in fields
    ]
    return parse(SchemaText(SchemaType.AVRO, json.dumps({"type": "record", "name": "R", "fields": made})))


def encoded(schema: ParsedSchema, rows: pa.StructArray, monkeypatch: pytest.MonkeyPatch) -> pa.Array:
    """By both kernels."""
    results = []
    for compiled in {encode_kernel.compiled, None}:
        with monkeypatch.context() as patched:
            patched.setattr(encode_kernel, "compiled", compiled)
            results.append(Encoder(schema, 7).encode(rows))
    for each in results:
        each.validate(full=True)
        assert each.equals(results[0])
    return results[0]


def decoded(schema: ParsedSchema, values: pa.Array) -> pa.StructArray:
    rows, bad = Decoder(schema, lambda schema_id: schema).decode(values)
    assert not any(bad.to_pylist())
    return rows


def failure(schema: ParsedSchema, rows: pa.StructArray, monkeypatch: pytest.MonkeyPatch) -> str:
    """What both kernels say."""
    messages = set()
    for compiled in {encode_kernel.compiled, None}:
        with monkeypatch.context() as patched:
            patched.setattr(encode_kernel, "compiled", compiled)
            with pytest.raises(NotEncodable) as raised:
                Encoder(schema, 7).encode(rows)
            messages.add(str(raised.value))
    assert len(messages) == 1
    return messages.pop()


@pytest.mark.parametrize("seed", range(40))
def test_avro_reads_back_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = Schemas(2000 + seed)
    source = schemas.record(3)
    schema = parse(SchemaText(SchemaType.AVRO, json.dumps(source)))
    raw = raw_schema(json.dumps(source))
    payloads = []
    for _ in range(10):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, raw, schemas.value(source))
        payloads.append(stream.getvalue())
    rows = decoded(schema, pa.array([pack_header(7) + each for each in payloads]))
    values = encoded(schema, rows, monkeypatch)
    assert decoded(schema, values).equals(rows)
    for value, payload in zip(values.to_pylist(), payloads, strict=True):
        written, read = io.BytesIO(value[5:]), io.BytesIO(payload)
        assert repr(fastavro.schemaless_reader(written, raw)) == repr(fastavro.schemaless_reader(read, raw))
        assert not written.read()
    part = rows.slice(3, 4)
    assert encoded(schema, part, monkeypatch).equals(values.slice(3, 4))


@pytest.mark.parametrize("seed", range(30))
def test_protobuf_reads_back_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2000 + seed)
    schema = parse(SchemaText(SchemaType.PROTOBUF, random_schema(rng)))
    make = GetMessageClass(message_of(schema))
    messages = [fill(rng, make()) for _ in range(8)]
    values = pa.array([pack_header(7, (0,)) + each.SerializeToString() for each in messages])
    rows = decoded(schema, values)
    again = encoded(schema, rows, monkeypatch)
    assert [make.FromString(each[6:]) for each in again.to_pylist()] == messages
    assert [len(each) for each in again.to_pylist()] == [len(each) for each in values.to_pylist()]
    assert encoded(schema, rows.slice(2, 3), monkeypatch).equals(again.slice(2, 3))


COLUMNS = pa.schema(
    [
        pa.field("s", pa.string()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("i", pa.int16()),
        pa.field("x", pa.float64()),
        pa.field("f", pa.float32()),
        pa.field("b", pa.bool_()),
        pa.field("when", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
        pa.field("by", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))),
        pa.field("inner", pa.struct([pa.field("x", pa.float64()), pa.field("y", pa.int64())])),
    ]
)
WHEN = datetime.datetime(2026, 11, 23, 1, 2, 3, 400_000, datetime.UTC)
ROWS = [
    {
        "s": 'q"\\\n\x01ß😀', "n": 1, "i": -3, "x": 0.1, "f": 0.5, "b": True, "when": WHEN, "tags": ["x", ""],
        "by": [("k", 5)], "inner": {"x": 1e300, "y": None},
    },
    {"s": None, "n": -2, "i": None, "x": None, "f": None, "b": None, "when": None, "tags": [], "by": [],
     "inner": None},
    None,
    {"s": "", "n": 0, "i": 0, "x": -0.0, "f": 0.0, "b": False, "tags": ["", "z"],
     "by": [("", 0)], "when": datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, datetime.UTC),
     "inner": {"x": None, "y": 1}},
]  # fmt: skip


@pytest.mark.parametrize("language", list(SchemaType))
def test_columns_register_a_schema_and_read_back(
    language: SchemaType, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = parse(schema_of_arrow(COLUMNS, language, "com.example.Row"))
    rows = pa.array(ROWS, pa.struct(list(COLUMNS)))
    values = encoded(schema, rows, monkeypatch)
    assert values.null_count == 1
    found = decoded(schema, values)
    assert found.to_pylist() == ROWS
    if language is SchemaType.JSON:
        for each in values.drop_null().to_pylist():
            jsonschema.validate(json.loads(each[5:]), json.loads(schema.canonical))


def test_decimals_dates_and_what_a_language_has_no_type_for(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = pa.schema(
        [("d", pa.decimal128(12, 3)), ("day", pa.date32()), ("at", pa.timestamp("us")), ("raw", pa.binary())]
    )
    row = {
        "d": Decimal("-1.500"), "day": datetime.date(1, 1, 1), "at": datetime.datetime(2026, 1, 1),
        "raw": b"\0\xff",
    }  # fmt: skip
    rows = pa.array([row], pa.struct(list(columns)))
    schema = parse(schema_of_arrow(columns, SchemaType.AVRO, "R"))
    assert decoded(schema, encoded(schema, rows, monkeypatch)).to_pylist() == [row]
    for language, name in ((SchemaType.PROTOBUF, "d"), (SchemaType.JSON, "raw")):
        with pytest.raises(ValueError, match=f"{name} has the type"):
            schema_of_arrow(columns, language, "R")


def test_columns_by_name_defaults_and_casts(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = avro(
        ("kept", "string", "standard"), ("wide", "double"), ("maybe", ["null", "int"]),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    )  # fmt: skip
    rows = pa.StructArray.from_arrays(
        [
            pa.array([WHEN], pa.timestamp("ns", "UTC")),
            pa.array([5], pa.int32()),
            pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
        ],
        names=["at", "wide", "price"],
    )
    found = decoded(schema, encoded(schema, rows, monkeypatch)).to_pylist()
    assert found == [{"kept": "standard", "wide": 5.0, "maybe": None, "price": Decimal("1.50"), "at": WHEN}]


def struct(**columns: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        ("int", pa.array([1, None], pa.int32()), "row 1: x is null"),
        ("int", pa.array([2**31]), "x: Integer value 2147483648 not in range"),
        ("int", pa.array(["5"]), "the column x is string, and the schema has int32"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.array(["A", "B"]), "row 1: x is no symbol"),
        ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"ab", b"abc"]), "row 1: x has another length"),
        ({"type": "array", "items": "int"}, pa.array([[1], [None]]), "row 1: x is null"),
        (
            {"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 0},
            pa.array([Decimal(99999)], pa.decimal128(5, 0)),
            "x",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    kind: Any, values: pa.Array, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said in failure(avro(("x", kind)), struct(x=values), monkeypatch)


def test_columns_that_are_missing_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = avro(("x", "int"), ("y", "int"))
    one = pa.array([1], pa.int32())
    assert "there is no column y" in failure(schema, struct(x=one), monkeypatch)
    assert "no field for the column z" in failure(schema, struct(x=one, y=one, z=one), monkeypatch)


def test_json_has_no_nan_and_required_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    source = {
        "type": "object",
        "properties": {"x": {"type": "number"}, "n": {"type": ["null", "integer"]}, "any": {}},
        "required": ["x", "n"],
    }
    schema = parse(SchemaText(SchemaType.JSON, json.dumps(source)))
    nan, number = pa.array([float("nan")]), pa.array([1.5])
    assert "row 0: x is not a number" in failure(schema, struct(x=nan), monkeypatch)
    assert "row 0: x is null" in failure(schema, struct(x=pa.nulls(1, pa.float64())), monkeypatch)
    text = pa.array(['{"a": [1]}'])
    values = encoded(schema, struct(x=number, any=text), monkeypatch)
    assert values[0].as_py()[5:] == b'{"x":1.5,"n":null,"any":{"a": [1]}}'
    assert "any is any JSON" in failure(schema, struct(x=number, any=pa.array(["{"])), monkeypatch)


def test_a_schema_that_is_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    for language, text in ((SchemaType.AVRO, '["null", "int"]'), (SchemaType.JSON, '{"type": "integer"}')):
        schema = parse(SchemaText(language, text))
        assert spark_types(schema).names == ["value"]
        rows = struct(value=pa.array([5, -6], spark_types(schema).field(0).type))
        assert decoded(schema, encoded(schema, rows, monkeypatch)).to_pylist() == rows.to_pylist()
