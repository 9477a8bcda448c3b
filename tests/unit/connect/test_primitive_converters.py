"""Converters of single values and of headers: as Kafka's."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pyarrow as pa
import pytest
from kafka_questions import answers

from moldau.connect import BadRecord, Header, Schema, Type
from moldau.connect.batch import Column
from moldau.connect.converters.headers import JsonHeaderConverter, LongHeaderConverter
from moldau.connect.converters.json.converter import JsonConverter
from moldau.connect.converters.primitive import LongConverter, ShortConverter, StringConverter
from moldau.connect.converters.simple_header import SimpleHeaderConverter
from moldau.connect.errors import ConnectError
from moldau.connect.plugins import PLUGINS, Kind
from moldau.connect.schema import struct_schema
from moldau.connect.values import column_of, python_values

ASKED = answers("primitive")


def converter_of(name: str, config: dict[str, Any] | None = None) -> Any:
    row = next(each for each in PLUGINS if each.kind is Kind.CONVERTER and name in each.other_names)
    module, _, kind = row.place.partition(":")
    made = getattr(__import__(module, fromlist=[kind]), kind)()
    made.configure(config or {}, False)
    return made


def with_schemas() -> JsonConverter:
    made = JsonConverter()
    made.configure({"schemas.enable": True}, False)
    return made


@pytest.mark.parametrize("index", range(len(ASKED)))
def test_as_kafka_does(index: int) -> None:
    question, answer = ASKED[index]
    made = converter_of(question["type"], question["config"])
    if question["op"] == "read":
        payload = None if question["payload"] is None else base64.b64decode(question["payload"])
        runs, refused = made.to_columns("t", pa.array([payload], pa.binary()))
        if "error" in answer:
            assert refused[0].reason == answer["error"] + answer["cause"]
            return
        assert refused == []
        value = with_schemas().to_payloads("t", runs[0].column)[0][0].as_py()
        assert runs[0].column.schema is not None
        expected = answer["data"]
        assert (expected if expected["payload"] is not None else None) == (value and json.loads(value))
        return
    data = question["data"]
    (run,), _ = with_schemas().to_columns("t", pa.array([data and orjson.dumps(data)], pa.binary()))
    written, refused = made.to_payloads("t", run.column)
    if "error" in answer:
        assert [each.row for each in refused] == [0]
        assert refused[0].reason == answer["error"] or answer["error"].startswith("Failed to serialize")
        return
    assert refused == []
    assert written[0].as_py() == (answer["payload"] and base64.b64decode(answer["payload"]))


@pytest.mark.parametrize(("question", "answer"), answers("header"))
def test_simple_headers_as_kafka(question: dict[str, Any], answer: dict[str, Any]) -> None:
    made = SimpleHeaderConverter()
    made.configure({})
    header = made.to_header("t", "h", base64.b64decode(question["payload"]))
    written = made.to_payload("t", header)
    assert written == base64.b64decode(answer["payload"])
    assert header.schema is not None
    described = with_schemas().to_payloads("t", column_of(header.schema, [header.value]))[0][0].as_py()
    assert json.loads(described) == answer["data"]


@pytest.mark.parametrize("text", ["[]", "{}", '[1,"a"]', "[null]", '{"a":null}', '{"a":1,"b":"x"}', "null"])
def test_headers_without_schema(text: str) -> None:
    made = SimpleHeaderConverter()
    made.configure({})
    header = made.to_header("t", "h", text.encode())
    assert header.schema is None
    assert made.to_payload("t", header) == (None if text == "null" else text.encode())


def test_hostile_headers_are_texts() -> None:
    made = SimpleHeaderConverter()
    made.configure({})
    for text in ("[" * 5000, "1e999999999", "9" * 5000, "1,000", "9999-99-99", '{"a":' * 100 + "}" * 100):
        assert made.to_header("t", "h", text.encode()).value == text
    assert made.to_header("t", "h", b"\xff") == Header("h", b"\xff", Schema(Type.BYTES))
    assert made.to_header("t", "h", None).value is None
    with pytest.raises(BadRecord, match=r"another header\.converter"):
        made.to_payload("t", Header("h", {"a": 1}, struct_schema({"a": Schema(Type.INT32)})))


def test_converters_as_header_converters() -> None:
    longs, values = LongHeaderConverter(), JsonHeaderConverter()
    longs.configure({})
    values.configure({"schemas.enable": False})
    header = longs.to_header("t", "n", (5).to_bytes(8, "big"))
    assert header == Header("n", 5, Schema(Type.INT64, True))
    assert longs.to_payload("t", header) == (5).to_bytes(8, "big")
    with pytest.raises(BadRecord, match="the header n: Failed to deserialize long"):
        longs.to_header("t", "n", b"x")
    assert values.to_payload("t", values.to_header("t", "n", b'{"a":[1]}')) == b'{"a":[1]}'
    assert values.to_header("t", "n", None).value is None


def test_runs_with_bad_payloads_and_nulls() -> None:
    made = converter_of("org.apache.kafka.connect.converters.IntegerConverter")
    given = pa.array([b"skip", b"\0\0\0\1", None, b"x", b"\xff" * 4], pa.binary()).slice(1)
    runs, refused = made.to_columns("t", given)
    assert [(run.first, python_values(run.column)) for run in runs] == [(0, [1, None]), (3, [-1])]
    assert [each.row for each in refused] == [2]
    written, refused = made.to_payloads("t", runs[0].column)
    assert written.to_pylist() == [b"\0\0\0\1", None]


def test_values_without_schema_are_written_where_they_fit() -> None:
    longs, shorts = LongConverter(), ShortConverter()
    longs.configure({}, False)
    shorts.configure({}, False)
    written, refused = longs.to_payloads("t", Column(None, [1, None, "x", True, 2**70]))
    assert written.to_pylist() == [(1).to_bytes(8, "big"), None, None, None, None]
    assert [each.row for each in refused] == [2, 3, 4]
    assert [each.row for each in shorts.to_payloads("t", Column(None, [70000, 7]))[1]] == [0]


def test_unknown_character_set() -> None:
    with pytest.raises(ConnectError, match="Unsupported encoding nope"):
        StringConverter().configure({"converter.encoding": "nope"}, False)
    assert StringConverter.settings[0].check is not None
    assert StringConverter.settings[0].check("nope") == "Unsupported encoding nope"
