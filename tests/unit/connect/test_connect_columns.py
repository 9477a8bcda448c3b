"""Schemas, values and batches: Python <-> Arrow, defaults, inference, slices."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from moldau.connect import BadRecord, BadRecords, ConnectError, Field, Schema, Type
from moldau.connect.arrow_types import arrow_type, schema_of
from moldau.connect.building import batch_of, concat, joined, rows
from moldau.connect.inference import infer_schema
from moldau.connect.schema import (
    DATE,
    TIME,
    TIMESTAMP,
    array_schema,
    decimal_schema,
    logical_schema,
    map_schema,
    struct_schema,
)
from moldau.connect.values import column_of, completed, python_values

INT, STRING = Schema(Type.INT32), Schema(Type.STRING, True)
NESTED = struct_schema(
    {
        "id": INT,
        "name": STRING,
        "price": decimal_schema(2, True),
        "day": logical_schema(DATE, True),
        "at": logical_schema(TIMESTAMP, True),
        "clock": logical_schema(TIME, True),
        "tags": array_schema(STRING, True),
        "counts": map_schema(Schema(Type.STRING), Schema(Type.INT64), True),
        "inner": struct_schema({"x": Schema(Type.FLOAT64)}, optional=True),
    }
)
ROW = {
    "id": 1,
    "name": "a",
    "price": Decimal("1.50"),
    "day": datetime.date(2026, 1, 2),
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, datetime.UTC),
    "clock": datetime.time(3, 4, 5, 6000),
    "tags": ["x", None],
    "counts": {"a": 1, "b": 2},
    "inner": {"x": 1.5},
}
NULLS = dict.fromkeys(ROW) | {"id": 2}


def test_nested_values_come_back() -> None:
    column = column_of(NESTED, [ROW, None, NULLS])
    assert column.values.type == arrow_type(NESTED)
    assert python_values(column) == [ROW, None, NULLS]


def test_arrow_types_and_back() -> None:
    assert schema_of(arrow_type(NESTED), False) == NESTED
    assert schema_of(pa.decimal128(10, 3)) == decimal_schema(3, True, 10)
    assert arrow_type(decimal_schema(3, True, 10)) == pa.decimal128(10, 3)
    assert schema_of(pa.dictionary(pa.int8(), pa.large_string())).type is Type.STRING
    with pytest.raises(ConnectError, match="no schema"):
        schema_of(pa.duration("s"))


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (struct_schema({"id": INT}), {"id": None}, "Invalid null value for required INT32 field id"),
        (struct_schema({"id": INT}), {"id": "x"}, "int"),
        (struct_schema({"id": Schema(Type.INT8)}), {"id": 300}, "300"),
        (array_schema(INT), [1, None], r"required INT32 field \[\]"),
        (map_schema(Schema(Type.STRING), INT), {"a": None}, r"required INT32 field \{\}"),
        (struct_schema({"s": struct_schema({"x": INT}, optional=True)}), {"s": {"x": None}}, r"s\.x"),
    ],
)
def test_bad_values_are_named(schema: Schema, value: object, reason: str) -> None:
    good = column_of(schema, [None])
    assert python_values(good) == [None]
    with pytest.raises(BadRecords, match=reason) as caught:
        column_of(schema, [None] * 70 + [value, None])
    assert caught.value.index == 70


def test_nulls_below_null_are_no_fault() -> None:
    schema = struct_schema({"s": struct_schema({"x": INT}, optional=True), "l": array_schema(INT, True)})
    values = [{"s": None, "l": None}, {"s": {"x": 1}, "l": []}, None]
    assert python_values(column_of(schema, values)) == values


def test_defaults_fill_nulls_at_every_depth() -> None:
    seven = Schema(Type.INT32, default=7)
    schema = struct_schema(
        {
            "a": seven,
            "l": array_schema(seven, True),
            "m": map_schema(Schema(Type.STRING), seven, True),
            "s": struct_schema({"x": seven}, optional=True),
            "d": Schema(Type.STRUCT, True, default={"x": 3}, fields=(Field("x", INT),)),
        }
    )
    values = [
        {"a": None, "l": [None, 1], "m": {"k": None}, "s": {"x": None}, "d": None},
        None,
        {"a": 1, "l": None, "m": None, "s": None, "d": {"x": 4}},
    ]
    filled = {"a": 7, "l": [7, 1], "m": {"k": 7}, "s": {"x": 7}, "d": {"x": 3}}
    column = column_of(schema, values)
    assert python_values(column) == [filled, None, values[2]]
    array, bad = completed(schema, column.values.slice(1), defaults=False)
    assert bad == {}
    assert array.to_pylist()[1]["a"] == 1


def test_inference() -> None:
    found = infer_schema([{"a": 1, "b": [1, 2.5]}, {"c": {"d": Decimal("1.25")}, "b": None}, None])
    assert found == struct_schema(
        {
            "a": Schema(Type.INT64, True),
            "b": array_schema(Schema(Type.FLOAT64, True), True),
            "c": struct_schema({"d": decimal_schema(2, True)}, optional=True),
        },
        optional=True,
    )
    assert infer_schema([None]) == STRING
    assert infer_schema([datetime.datetime(2020, 1, 1)]).name == TIMESTAMP
    with pytest.raises(ConnectError, match=r"a\.b is int64 in one record and string"):
        infer_schema([{"a": {"b": 1}}, {"a": {"b": "x"}}])
    deep: list[object] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(ConnectError, match="nested deeper"):
        infer_schema([deep])


def test_batches_of_rows_tables_and_keys() -> None:
    plain = batch_of("t", [{"id": 1}, None], timestamps_ms=[5, None])
    assert [(row.key, row.value, row.timestamp_ms) for row in rows(plain)] == [
        (None, {"id": 1}, 5),
        (None, None, None),
    ]
    table = batch_of("t", pa.table({"id": pa.chunked_array([[1], [2]]), "n": ["a", "b"]}), keys="id")
    assert [(row.key, row.value) for row in rows(table)] == [
        (1, {"id": 1, "n": "a"}),
        (2, {"id": 2, "n": "b"}),
    ]
    assert table.key.schema == Schema(Type.INT64, True)
    with pytest.raises(BadRecord, match="no field extra"):
        batch_of("t", [{"id": 1, "extra": 2}], struct_schema({"id": INT}))
    with pytest.raises(ConnectError, match="as many keys"):
        batch_of("t", [1, 2], keys=[1])


def test_slices_share_memory_and_join_again() -> None:
    batch = batch_of("t", [{"id": number} for number in range(10)], struct_schema({"id": INT}))
    parts = batch.split(4)
    assert [len(each) for each in parts] == [4, 4, 2]
    numbers = parts[1].value.values.field(0)
    assert numbers.buffers()[1].address == batch.value.values.field(0).buffers()[1].address
    assert list(rows(concat(parts))) == list(rows(batch))
    assert len(joined([*parts, batch_of("u", [1]), batch_of("u", [2])])) == 2
    assert list(rows(joined([parts[0], parts[1].slice(4, 0), parts[1], parts[2]])[0])) == list(rows(batch))


def test_a_value_that_is_no_map_is_a_bad_row_and_not_the_end() -> None:
    schema = struct_schema({"tags": map_schema(Schema(Type.STRING), Schema(Type.INT32), True)})
    values: list[Any] = [{"tags": {"a": 1}}, {"tags": 5}, {"tags": ["ab", "c"]}, {"tags": None}]
    with pytest.raises(BadRecords) as caught:
        column_of(schema, values)
    assert [row for row, _ in caught.value.rows] == [1, 2]
    assert python_values(column_of(schema, values[::3])) == values[::3]
