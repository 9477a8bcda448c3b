"""JsonConverter: Kafka's bytes, Kafka's values; what is refused, and why."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_questions import answers, envelope, struct

from moldau.connect import Schema, Type, batch_of
from moldau.connect.batch import Column
from moldau.connect.converters.json.converter import JsonConverter
from moldau.connect.converters.json.schema_json import schema_from_json, schema_to_json
from moldau.connect.schema import array_schema, decimal_schema, struct_schema
from moldau.connect.values import column_of, python_values

ASKED = answers("json")


def converter(**settings: Any) -> JsonConverter:
    made = JsonConverter()
    typed = {name.replace("_", "."): value for name, value in settings.items()}
    made.configure({name: {"true": True, "false": False}.get(str(v), v) for name, v in typed.items()}, False)
    return made


def payloads(*given: bytes | str | None) -> pa.Array:
    return pa.array([each.encode() if isinstance(each, str) else each for each in given], pa.binary())


def described(column: Column) -> Any:
    """A column of one row as Kafka's answers describe it."""
    written, refused = converter(schemas_enable=True, replace_null_with_default=False).to_payloads(
        "t", column
    )
    assert refused == []
    value = written[0].as_py()
    return None if value is None else json.loads(value)


@pytest.mark.parametrize("index", [i for i, (question, _) in enumerate(ASKED) if question["op"] == "read"])
def test_reads_what_kafka_reads(index: int) -> None:
    question, answer = ASKED[index]
    payload = question["payload"] and base64.b64decode(question["payload"])
    if question["payload"] == "":
        payload = b""
    made, refused = converter(**question["config"]).to_columns("t", payloads(payload))
    if "error" in answer:
        assert [each.row for each in refused] == [0]
        assert made == []
        known = answer["error"].removesuffix("Number value length (1001) exceeds the maximum allowed")
        assert refused[0].reason.startswith(known) or "Invalid bytes" in known
        return
    assert refused == []
    expected = answer["data"]
    if expected is not None and expected["payload"] is None:
        expected = None  # a null value is a tombstone
    if expected == {"schema": None, "payload": "Infinity"}:
        assert math.isinf(python_values(made[0].column)[0])
        return
    assert described(made[0].column) == expected


@pytest.mark.parametrize("index", [i for i, (question, _) in enumerate(ASKED) if question["op"] == "write"])
def test_writes_kafkas_bytes(index: int) -> None:
    question, answer = ASKED[index]
    data = orjson.dumps(question["data"])
    (read,), refused = converter(replace_null_with_default=False).to_columns("t", payloads(data))
    assert refused == []
    written, refused = converter(**question["config"]).to_payloads("t", read.column)
    assert refused == []
    assert written[0].as_py() == base64.b64decode(answer["payload"])


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"type": "int32"}, "x", "Invalid value for INT32 field: found STRING"),
        ({"type": "int32"}, True, "found BOOLEAN"),
        ({"type": "int32"}, 1.5, "Invalid value for INT32 field: 1.5"),
        ({"type": "int8"}, 300, "300"),
        ({"type": "int64"}, 2**63, "9223372036854775808"),
        ({"type": "string"}, 1, "found NUMBER"),
        ({"type": "array", "items": {"type": "string"}}, "ab", "found STRING"),
        (struct({"type": "array", "items": {"type": "string"}, "field": "a"}), {"a": "ab"}, "found STRING"),
        (
            {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}},
            1.5,
            "loss",
        ),
    ],
)
def test_refuses_what_kafka_would_change(schema: Any, value: Any, reason: str) -> None:
    good = envelope({"type": "boolean"}, True)
    made, refused = converter().to_columns("t", payloads(good, envelope(schema, value), good))
    assert [each.row for each in refused] == [1]
    assert reason in refused[0].reason
    assert [(run.first, len(run.column)) for run in made] == [(0, 1), (2, 1)]


def test_numbers_keep_their_digits() -> None:
    texts = ["18446744073709551616", "9223372036854775808", '{"a":[123456789012345678901234567890]}']
    (run,), refused = converter(schemas_enable=False).to_columns("t", payloads(*texts))
    assert refused == []
    assert python_values(run.column) == [2**64, 2**63, {"a": [123456789012345678901234567890]}]
    written, _ = converter(schemas_enable=False).to_payloads("t", run.column)
    assert written.to_pylist() == [each.encode() for each in texts]
    number = decimal_schema(2)
    data = envelope(schema_to_json(number), 0).replace('"payload": 0', '"payload": 12345678901234567890.05')
    (run,), refused = converter().to_columns("t", payloads(data))
    assert python_values(run.column) == [Decimal("12345678901234567890.05")]


def test_bad_ones_in_a_run_are_left_out_in_order() -> None:
    given = payloads('{"a":1}', "{", None, '"\\ud800"', '{"a":2} x', '{"a":3}')
    made, refused = converter(schemas_enable=False).to_columns("t", given)
    assert [each.row for each in refused] == [1, 3, 4]
    assert [(run.first, python_values(run.column)) for run in made] == [
        (0, [{"a": 1}]),
        (2, [None]),
        (5, [{"a": 3}]),
    ]


def test_runs_of_schemas_with_tombstones_between() -> None:
    one, two = {"type": "int32", "optional": False}, {"type": "string", "optional": False}
    given = payloads(
        None, envelope(one, 1), None, envelope(one, 2), envelope(two, "x"), None, envelope(one, 3)
    )
    made, refused = converter().to_columns("t", given)
    assert refused == []
    assert [(run.first, python_values(run.column)) for run in made] == [
        (0, [None, 1, None, 2]),
        (4, ["x", None]),
        (6, [3]),
    ]


def test_an_envelope_cannot_be_faked_by_a_value() -> None:
    schema = '{"schema":{"type":"string","optional":false},"payload":'
    given = payloads(
        schema + '"a"}', schema + '"b"},"payload":"c"}', schema + '"d","x":1}', schema + '"},\\"payload\\":"}'
    )
    made, refused = converter().to_columns("t", given)
    assert [each.row for each in refused] == [1, 2]
    assert [python_values(run.column) for run in made] == [["a"], ['},"payload":']]


def test_schemas_that_are_hostile_cost_their_record() -> None:
    deep: Any = {"type": "int32"}
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    number = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}}
    odd = {**number, "parameters": {"scale": "x"}}
    long = base64.b64encode(b"\1" * 5000).decode()
    given = payloads(
        envelope({"type": "boolean"}, True), envelope(deep, []), envelope(odd, "AA=="), envelope(number, long)
    )
    made, refused = converter().to_columns("t", given)
    assert [run.first for run in made] == [0]
    assert [each.row for each in refused] == [1, 2, 3]
    assert ("deep" in refused[0].reason, "38 digits" in refused[2].reason) == (True, True)


@pytest.mark.parametrize("blank", ["", " ", "\n  "])
def test_schemas_that_take_turns_however_they_are_spaced(blank: str) -> None:
    texts = []
    for number in range(100):
        kind = "int32" if number % 2 else "int64"
        parts = ('{"schema":', f'{{"type":"{kind}","doc":",\\"payload\\":"}},', '"payload":', f"{number}}}")
        texts.append(blank.join(parts))
    made, refused = converter().to_columns("t", payloads(*texts))
    assert refused == []
    assert [python_values(run.column) for run in made] == [[number] for number in range(100)]
    whole, _ = converter().to_columns("t", payloads(*texts[::2], None, *texts[::2]))
    assert [len(run.column) for run in whole] == [101]


def test_required_null_is_refused_when_written() -> None:
    schema = struct_schema({"a": Schema(Type.INT32)})
    column = Column(schema, pa.array([{"a": 1}, {"a": None}, None], pa.struct([pa.field("a", pa.int32())])))
    written, refused = converter(schemas_enable=False).to_payloads("t", column)
    assert written.to_pylist() == [b'{"a":1}', None, None]
    assert [each.row for each in refused] == [1]
    assert refused[0].reason.startswith("Conversion error: null value for field that is required")


def test_slices_of_nested_columns_are_written_right() -> None:
    schema = struct_schema({"l": array_schema(Schema(Type.STRING, True), True)})
    rows = [{"l": ["a"]}, None, {"l": None}, {"l": []}, {"l": ["b", None]}, {"l": ["c"]}]
    column = column_of(schema, rows).slice(1, 4)
    written, _ = converter(schemas_enable=False).to_payloads("t", column)
    assert written.to_pylist() == [None, b'{"l":null}', b'{"l":[]}', b'{"l":["b",null]}']


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(st.characters(codec="utf-8"))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=5))
def test_values_without_schema_come_back(values: list[Any]) -> None:
    column = Column(None, values)
    written, refused = converter(schemas_enable=False).to_payloads("t", column)
    assert refused == []
    runs, refused = converter(schemas_enable=False).to_columns("t", written)
    assert refused == []
    back = [value for run in runs for value in python_values(run.column)]
    assert repr(back) == repr([_as_read(value) for value in values])


def _as_read(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [_as_read(each) for each in value]
    if isinstance(value, dict):
        return {key: _as_read(each) for key, each in value.items()}
    return value


TEXTS = st.text(st.characters(codec="utf-8"))
ROWS = st.fixed_dictionaries(
    {
        "f": st.none() | st.floats(width=32),
        "d": st.none() | st.floats(),
        "s": st.none() | TEXTS,
        "b": st.none() | st.binary(),
        "n": st.none() | st.decimals(-(10**20), 10**20, places=3),
        "i": st.integers(-(2**63), 2**63 - 1),
        "l": st.none() | st.lists(st.none() | st.integers(0, 9)),
    }
)


@given(st.lists(st.none() | ROWS, max_size=6), st.integers(1, 4), st.sampled_from(["BASE64", "NUMERIC"]))
def test_columns_come_back_however_they_are_cut(rows: list[Any], cut: int, decimals: str) -> None:
    schema = struct_schema(
        {
            "f": Schema(Type.FLOAT32, True),
            "d": Schema(Type.FLOAT64, True),
            "s": Schema(Type.STRING, True),
            "b": Schema(Type.BYTES, True),
            "n": decimal_schema(3, True),
            "i": Schema(Type.INT64),
            "l": array_schema(Schema(Type.INT64, True), True),
        }
    )
    batch = batch_of("t", rows, schema)
    made = converter(decimal_format=decimals)
    whole, refused = made.to_payloads("t", batch.value)
    assert refused == []
    parts = [made.to_payloads("t", each.value)[0] for each in batch.split(cut)]
    assert [each for part in parts for each in part.to_pylist()] == whole.to_pylist()
    runs, refused = converter().to_columns("t", whole)
    assert refused == []
    back = [value for run in runs for value in python_values(run.column)]
    assert repr(back) == repr(python_values(batch.value))
    assert all(run.column.schema in (schema, None) for run in runs)


def test_schemas_as_json_and_back() -> None:
    for question, _ in ASKED:
        node = question.get("data", {}).get("schema")
        if node is not None:
            schema = schema_from_json(node)
            assert schema is not None
            assert schema_from_json(schema_to_json(schema)) == schema


@pytest.mark.parametrize("scale", ["39", "2147483648", "-9999999999"])
def test_a_decimal_of_an_impossible_scale_costs_its_record(scale: str) -> None:
    """And does not end the task."""
    name = "org.apache.kafka.connect.data.Decimal"
    schema = {"type": "bytes", "name": name, "parameters": {"scale": scale}}
    converter = JsonConverter()
    converter.configure({}, False)
    payloads = [json.dumps({"schema": schema, "payload": "AQ=="}).encode(), b'{"schema":null,"payload":1}']
    (run,), (refused,) = converter.to_columns("t", pa.array(payloads, pa.binary()))
    assert (refused.row, run.column.values) == (0, [1])
    assert "scale" in refused.reason


_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_PIECES = st.sampled_from(
    [b"[1", b"2]", b"{}", b'{"a":[', b"]}", b"1,2", b"", b" ", b'"', b"]", b"[", b"nul"]
)


@given(st.lists(_DOCUMENTS.map(lambda each: json.dumps(each).encode()) | _PIECES | st.none(), max_size=12))
def test_records_that_are_read_together_are_what_each_is_alone(given: list[bytes | None]) -> None:
    reader = converter(**{"schemas.enable": False})
    columns, refused = reader.to_columns("t", payloads(*given))
    together = {each.first + row: value for each in columns for row, value in enumerate(each.column.values)}
    bad = {each.row for each in refused}
    for row, payload in enumerate(given):
        alone, wrong = reader.to_columns("t", payloads(payload))
        assert (row in bad) is bool(wrong)
        if not wrong:
            assert together[row] == alone[0].column.values[0]


def test_records_cannot_be_shifted_by_one_that_is_no_json() -> None:
    shifting = [b'{"a":[{}', b'{"b":1}]}', b'{},{"c":2}', b'{"d":3}', b'{"e":4}', b'{"f":5}']
    columns, refused = converter(**{"schemas.enable": False}).to_columns("t", payloads(*shifting))
    assert [each.row for each in refused] == [0, 1, 2]
    found = [value for each in columns for value in each.column.values]
    assert [each for each in found if each] == [{"d": 3}, {"e": 4}, {"f": 5}]
