"""What was asked of Kafka's own converters and transforms; their answers are in kafka_answers.json.

python -m tests.unit.connect.kafka_questions     asks them again (Java and Maven; bench/apache_kafka)
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("kafka_answers.json.gz")
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
DATA = "org.apache.kafka.connect.data."

Question = dict[str, Any]


def encoded(payload: bytes | str | None) -> str | None:
    """Bytes as they stand in questions and answers."""
    if payload is None:
        return None
    return base64.b64encode(payload.encode() if isinstance(payload, str) else payload).decode()


def envelope(schema: Any, payload: Any) -> str:
    """JSON with schema."""
    return json.dumps({"schema": schema, "payload": payload})


def struct(*fields: Question, **more: Any) -> Question:
    """The JSON of a STRUCT."""
    return {"type": "struct", "fields": list(fields), "optional": False, **more}


def field(name: str, kind: str, optional: bool = True, **more: Any) -> Question:
    """The JSON of a field."""
    return {"type": kind, "optional": optional, **more, "field": name}


def logical(name: str, kind: str, **more: Any) -> Question:
    """The JSON of a logical type."""
    return {"type": kind, "optional": True, "name": DATA + name, "version": 1, **more}


def decimal(scale: int) -> Question:
    """The JSON of a Decimal."""
    return logical("Decimal", "bytes", parameters={"scale": str(scale)})


PLAIN_JSON: list[bytes | str | None] = [
    None, "", " ", "null", "1", '"x"', "1.5", "[]", "{}", '{"a":1,"a":2}', "[1,\"a\",null,true]", "1e400",
    "NaN", "[1,2",
    '{"a":1.0}', "+1", "'a'", "\ufeff1", '{"a":1} ', "-0", "1E5", "[" * 1100 + "]" * 1100,
    "[" * 50 + "]" * 50,
    b'"\xff"', b'"\x01"', "nul", "1" * 1001, '{"a":{"b":[{"c":null}]}}', '"\\u00e9\\ud83d\\ude00"',
    "-9223372036854775808",
]  # fmt: skip
INT32 = {"type": "int32", "optional": False}
EVERYTHING = struct(
    field("i", "int8", False, default=3),
    field("f", "float"),
    field("d", "double"),
    field("s", "string", default="x\u0001"),
    field("by", "bytes"),
    {**decimal(2), "default": "AJY=", "field": "dec"},
    {"type": "array", "optional": True, "items": {"type": "string", "optional": True}, "field": "arr"},
    {
        "type": "map",
        "optional": True,
        "keys": {"type": "string"},
        "values": {"type": "int64", "optional": True},
        "field": "m",
    },
    {
        "type": "map",
        "optional": True,
        "keys": INT32,
        "values": {"type": "int64", "optional": True},
        "field": "m2",
    },
    {**logical("Timestamp", "int64"), "field": "ts"},
    {**logical("Date", "int32"), "field": "day"},
    {**logical("Time", "int32"), "field": "clock"},
    struct(field("z", "boolean"), optional=True, field="st"),
    name="com.X",
    version=3,
    doc="d\u00e9",
    parameters={"b": "1", "a": "2"},
    optional=True,
)
FULL = {
    "i": 5, "f": 0.1, "d": 12345678.5, "s": 'a"\\/\u0001\u001f\u007f\u2028\u00e9\U0001f600\n\t\b\f\r',
    "by": "AAE=",
    "dec": "AJY=", "arr": ["x", None, "y,z"], "m": {"k": 1, "n": None}, "m2": [[1, 2], [3, None]],
    "ts": 1700000000123,
    "day": -3, "clock": 86399999, "st": {"z": True},
}  # fmt: skip
EMPTY = {
    "i": 1,
    "f": None,
    "d": None,
    "s": None,
    "by": None,
    "dec": None,
    "arr": [],
    "m": {},
    "m2": [],
    "st": {},
}
ENVELOPES: list[str | None] = [
    None, "", '{"a":1}', '{"schema":null,"payload":1}', '{"schema":null,"payload":null}', '{"payload":1}',
    "[1]", "null",
    '{"schema":{"type":"int32"},"payload":1,"x":2}', envelope(INT32, 1), envelope(INT32, None),
    envelope({"type": "string"}, "a"), envelope({"type": "double"}, 1), envelope({"type": "bytes"}, "AAE="),
    envelope({"type": "float"}, 1.5), envelope({"type": "boolean"}, True), envelope({"type": "bytes"}, "@@"),
    envelope({"type": "float"}, 1e300),
    envelope(EVERYTHING, FULL), envelope(EVERYTHING, EMPTY), envelope(EVERYTHING, None),
    json.dumps({"payload": FULL, "schema": EVERYTHING}),
    envelope(struct(field("a", "int32", False), field("b", "string")), {"a": 1, "c": 2}),
    envelope(struct(field("a", "int32", False)), {}),
    envelope(struct(field("a", "int32", False, default=5)), {}),
    envelope(struct(field("a", "int32", default=5)), {"a": None}),
    envelope(struct(field("a", "int32", False)), [1]),
    envelope({"type": "array", "items": INT32}, [1, None]), envelope({"type": "array", "items": INT32}, [1,
    2]),
    envelope({"type": "map", "keys": {"type": "string"}, "values": INT32}, {"a": 1}),
    envelope({"type": "map", "keys": INT32, "values": INT32}, [[1, 2]]),
    envelope({"type": "map", "keys": INT32, "values": INT32}, {"1": 2}),
    envelope(logical("Date", "int32"), 1), envelope(logical("Date", "int32"), "x"),
    envelope(logical("Date", "int32"), 1.5), envelope(logical("Time", "int32"), 1000),
    envelope(logical("Timestamp", "int64"), 1), envelope(decimal(2), "AJY="), envelope(decimal(2), 1.55),
    envelope(decimal(2), True), envelope(decimal(-2), "DA=="),
    envelope({"type": "uuid"}, 1), envelope({}, 1), envelope({"type": 1}, 1), envelope({"type": "struct"},
    {}),
    envelope({"type": "array"}, []), envelope({"type": "map"}, {}),
    envelope({"type": "struct", "fields": [{"type": "int32"}]}, {}), envelope({"type": "int32",
    "version": "x"}, 1),
    envelope({"type": "int32", "parameters": {"a": 1}}, 1), envelope({"type": "int32", "name": 5}, 1),
    envelope("int32", 1),
]  # fmt: skip
WITH, WITHOUT = {"schemas.enable": "true", "converter.type": "value"}, {"schemas.enable": "false"}


def json_questions() -> list[Question]:
    """Of JsonConverter."""
    made: list[Question] = []

    def read(payloads: list[Any], config: Question) -> None:
        for payload in payloads:
            made.append({"op": "read", "type": JSON_CONVERTER, "config": config, "payload": encoded(payload)})

    read(PLAIN_JSON, WITHOUT)
    read(ENVELOPES, WITH)
    read(["1", "null", None], {**WITH, "schema.content": json.dumps(INT32)})
    read([json.dumps(FULL), json.dumps(EMPTY)], {**WITH, "schema.content": json.dumps(EVERYTHING)})
    keep = {"replace.null.with.default": "false"}
    read(
        [envelope(EVERYTHING, EMPTY), envelope(struct(field("a", "int32", default=5)), {"a": None})],
        WITH | keep,
    )
    for config in (
        WITH,
        WITHOUT,
        {**WITHOUT, "decimal.format": "numeric"},
        {**WITH, "decimal.format": "NUMERIC"},
    ):
        for payload in (FULL, EMPTY):
            data = {"schema": EVERYTHING, "payload": payload}
            made.append({"op": "write", "type": JSON_CONVERTER, "config": config, "data": data})
    made += [
        {
            "op": "write",
            "type": JSON_CONVERTER,
            "config": WITHOUT,
            "data": {"schema": schema, "payload": value},
        }
        for schema, values in _NUMBERS
        for value in values
    ]
    for scale, number in (
        (2, 150),
        (0, 0),
        (0, 127),
        (0, 128),
        (0, -129),
        (10, 1),
        (-2, 12),
        (7, 1),
        (2, 0),
        (38, 5),
    ):
        unscaled = encoded(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))
        for how in ("NUMERIC", "BASE64"):
            data = {"schema": decimal(scale), "payload": unscaled}
            config = {**WITHOUT, "decimal.format": how}
            made.append({"op": "write", "type": JSON_CONVERTER, "config": config, "data": data})
    nested = {"a": [1, 2.5, None, {"b": "\u0001\U0001f600"}], "c": {}, "d": [], "e": True, "f": 1e16}
    for config in (WITH, WITHOUT):
        made.append(
            {
                "op": "write",
                "type": JSON_CONVERTER,
                "config": config,
                "data": {"schema": None, "payload": nested},
            }
        )
    return made


# Java 17 does not always write the fewest digits (1.17549435E-38); Java 19 and newer do.
_NUMBERS = (
    (
        {"type": "double", "optional": True},
        (1, 0, 0.001, 0.00099, 9999999, 1e7, 1e16, 1.5e300, 5e-324, 123456789012345680, 0.1, 100, 2e-3,
        1 / 3, -1.5e-7),
    ),
    (
        {"type": "float", "optional": True},
        (0.1, 1e7, 3.4028235e38, 1e-3, 16777216, 0.33333334, 1e10, -2.5),
    ),
)  # fmt: skip


CONVERTERS = "org.apache.kafka.connect.converters."
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
SIMPLE_HEADER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
BYTES_OF = {
    "Boolean": [b"\x00", b"\x01", b"\x02", b"", b"\0\0"],
    "Short": [b"\x01\x02", b"\xff\xfe", b"\1"],
    "Integer": [b"\0\0\0\1", b"\1"],
    "Long": [b"\xff" * 7 + b"\1", b""],
    "Float": [b"\x3f\x80\0\0", b"1"],
    "Double": [b"\x3f\xf0" + b"\0" * 6, b"1"],
    "ByteArray": [b"x", b""],
}
VALUES_OF: list[tuple[str, Any]] = [
    ("boolean", True), ("int16", 258), ("int32", 1), ("int64", -5), ("float", 1.5), ("double", 1.5),
    ("string", "x"),
    ("bytes", "AAE="),
]  # fmt: skip
HEADER_TEXTS = [
    "", "NULL", "true", "false", "True", "abc", "1", "127", "128", "-129", "32768", "2147483648",
    "9223372036854775808",
    "1.5", "0.1", "1e10", "1.0", "NaN", "Infinity", "2020-01-02", "2020-01-02T03:04:05.678Z", "03:04:05.678Z",
    "2020-01-02T03:04:05Z", "[1,2]", "[1,2", '{"a":1}', "{1:2}", '"x"', '"a\\"b"', "a b", "  x ", "1 2",
    "[1, 2.5]", "[[1],[2]]", "[true,false]", "a,b", "a:b", "12abc", "-", "[1,70000]", '{"a":{"b":1}}',
    "\u00e9", ", ",
    "[a,b]", "{a:b}", "0x10", "1f", "1L", "+1", "01", "1.", "\t1", "truex", '["a","b,c"]',
]  # fmt: skip


def primitive_questions() -> list[Question]:
    """Of the converters of single values."""
    made: list[Question] = []
    for name, payloads in BYTES_OF.items():
        kind = f"{CONVERTERS}{name}Converter"
        for payload in (*payloads, None):
            made.append({"op": "read", "type": kind, "config": {}, "payload": encoded(payload)})
        for type_, value in VALUES_OF:
            data = {"schema": {"type": type_, "optional": False}, "payload": value}
            made.append({"op": "write", "type": kind, "config": {}, "data": data})
    for payload in (b"x", b"", None, b"\xff\xfea", b"\xe2\x82", "\u00e9"):
        made.append({"op": "read", "type": STRING_CONVERTER, "config": {}, "payload": encoded(payload)})
    latin = {"converter.encoding": "ISO-8859-1"}
    made.append({"op": "read", "type": STRING_CONVERTER, "config": latin, "payload": encoded(b"\xe9")})
    plain = {
        key: value
        for key, value in FULL.items()
        if key in ("i", "f", "d", "s", "dec", "arr", "m", "ts", "st")
    }
    for data in (
        {"schema": EVERYTHING, "payload": plain},
        {"schema": None, "payload": {"a": [1, 2.5, None, True], "b": {"c": "x"}}},
        {"schema": {"type": "boolean"}, "payload": True},
        {"schema": {"type": "double"}, "payload": 1e10},
        {"schema": {"type": "float"}, "payload": 0.1},
        {"schema": {"type": "int64"}, "payload": 5},
        None,
    ):
        made.append({"op": "write", "type": STRING_CONVERTER, "config": {}, "data": data})
    return made


def header_questions() -> list[Question]:
    """Of SimpleHeaderConverter."""
    return [
        {"op": "header", "type": SIMPLE_HEADER, "config": {}, "payload": encoded(each)}
        for each in HEADER_TEXTS
    ]


def all_questions() -> dict[str, list[Question]]:
    """By the part that they are about."""
    return {"json": json_questions(), "primitive": primitive_questions(), "header": header_questions()}


def answers(part: str) -> list[tuple[Question, Question]]:
    """Questions with Kafka's answers."""
    found: list[tuple[Question, Question]] = json.loads(gzip.decompress(ANSWERS.read_bytes()))[part]
    return found


if __name__ == "__main__":
    from bench.apache_kafka.connect_oracle import ask

    recorded = {
        part: list(zip(questions, ask(questions), strict=True)) for part, questions in all_questions().items()
    }
    ANSWERS.write_bytes(gzip.compress(json.dumps(recorded, separators=(",", ":")).encode(), mtime=0))
