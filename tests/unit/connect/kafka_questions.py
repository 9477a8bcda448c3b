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


TRANSFORMS = "org.apache.kafka.connect.transforms."
INNER = struct(field("x", "int32", False), field("y", "string"), optional=True)
ROW = struct(
    field("i", "int32", False),
    field("l", "int64"),
    field("d", "double"),
    field("f", "float"),
    field("b", "boolean"),
    field("s", "string", default="dft"),
    field("by", "bytes"),
    {**decimal(2), "field": "dec"},
    {**logical("Date", "int32"), "field": "day"},
    {**logical("Time", "int32"), "field": "clock"},
    {**logical("Timestamp", "int64"), "field": "ts"},
    {"type": "array", "optional": True, "items": {"type": "int32", "optional": True}, "field": "arr"},
    {"type": "map", "optional": True, "keys": {"type": "string"}, "values": {"type": "int32"}, "field": "m"},
    {**INNER, "field": "in"},
    field("text", "string"),
    name="com.Row",
    version=1,
)
FILLED = {
    "i": 300, "l": 1700000000123, "d": 1.7, "f": 0.5, "b": True, "s": "5", "by": "AAE=", "dec": "AJY=",
        "day": 19000,
    "clock": 3723004, "ts": 1700000000123, "arr": [1, 2], "m": {"k": 1}, "in": {"x": 1, "y": "z"},
    "text": "2023-11-14 22:13:20.123",
}  # fmt: skip
NULLS = {"i": -1}
PLAIN = {
    "i": 300, "d": 1.7, "b": True, "s": "5", "n": None, "arr": [1, {"q": 1}], "in": {"x": 1, "y": {"z": "w"}},
    "l": 1700000000123, "text": "2023-11-14 22:13:20.123", "a.b": 7,
}  # fmt: skip
VALUES: list[Any] = [
    {"schema": ROW, "payload": FILLED},
    {"schema": ROW, "payload": NULLS},
    {"schema": None, "payload": PLAIN},
    {"schema": {"type": "int64", "optional": False}, "payload": 1700000000123},
    {"schema": None, "payload": "a text"},
    None,
]
HEADERS = [["h1", {"schema": {"type": "string"}, "payload": "x"}], ["h2", {"schema": None, "payload": 5}]]
SPECS: list[tuple[str, Question]] = [
    *(("Cast$Value", {"spec": f"i:{t},l:{t},d:{t},f:{t},b:{t},s:{t}"}) for t in ("int8", "int32", "float64",
        "boolean")),
    *(("Cast$Value", {"spec": f"{name}:{t}"}) for name in ("dec", "day", "clock", "ts", "by", "text", "arr",
        "in", "s")
      for t in ("string", "int64", "float64", "boolean", "int8")),
    ("Cast$Value", {"spec": "i:string,l:string,d:string,f:string,b:string"}),
    ("Cast$Value", {"spec": "s:int32", "replace.null.with.default": "false"}),
    ("Cast$Value", {"spec": "string"}), ("Cast$Value", {"spec": "int8"}), ("Cast$Key", {"spec": "float64"}),
    ("Cast$Value", {"spec": "i:float32,d:float32,f:float32,b:float32"}),
    ("DropHeaders", {"headers": "h1,h3"}),
    *(("ExtractField$Value", {"field": f}) for f in ("i", "in", "s", "nope", "a.b")),
    *(("ExtractField$Value", {"field": f, "field.syntax.version": "V2"}) for f in ("in.x", "in.y.z", "i.x",
        "`a.b`", "in.q")),
    ("ExtractField$Value", {"field": "s", "replace.null.with.default": "false"}), ("ExtractField$Key",
        {"field": "id"}),
    ("Filter", {}), ("Flatten$Value", {}), ("Flatten$Value", {"delimiter": "_"}), ("Flatten$Key",
        {"delimiter": "-"}),
    *(("HeaderFrom$Value", {"fields": "i,s", "headers": "hi,hs", "operation": o}) for o in ("move", "copy")),
    ("HeaderFrom$Value", {"fields": "nope", "headers": "h", "operation": "copy"}),
    ("HeaderFrom$Key", {"fields": "id", "headers": "h", "operation": "move"}),
    ("HoistField$Value", {"field": "w"}), ("HoistField$Key", {"field": "w"}),
    ("InsertField$Value", {"topic.field": "t", "partition.field": "p!", "offset.field": "o?",
        "timestamp.field": "tm",
                           "static.field": "st!", "static.value": "sv"}),
    ("InsertField$Value", {"static.field": "i", "static.value": "sv"}), ("InsertField$Key",
        {"topic.field": "t"}),
    *(("InsertHeader", {"header": "n", "value.literal": v}) for v in ("5", "text", "true", "1.5")),
    ("MaskField$Value", {"fields": "i,l,d,f,b,s,dec,day,ts,clock,arr,m"}), ("MaskField$Value",
        {"fields": "by"}),
    ("MaskField$Value", {"fields": "in"}), ("MaskField$Value", {"fields": "n,text"}),
    ("MaskField$Value", {"fields": "s,text", "replacement": "***"}), ("MaskField$Value",
        {"fields": "i,l,d,f,dec", "replacement": "7"}),
    ("MaskField$Value", {"fields": "i", "replacement": "x"}), ("MaskField$Value", {"fields": "b",
        "replacement": "1"}),
    ("MaskField$Key", {"fields": "id"}),
    ("RegexRouter", {"regex": "t(.*)", "replacement": "x-$1-y"}), ("RegexRouter", {"regex": "q",
        "replacement": "z"}),
    ("RegexRouter", {"regex": "(?<a>t).*", "replacement": "${a}\\$1"}),
    ("ReplaceField$Value", {"exclude": "i,in", "renames": "s:str"}), ("ReplaceField$Value",
        {"include": "i,s,nope"}),
    ("ReplaceField$Value", {"include": "i", "exclude": "i"}), ("ReplaceField$Value", {"renames": "i:l2,l:i"}),
    ("ReplaceField$Value", {"include": "s", "replace.null.with.default": "false"}), ("ReplaceField$Key",
        {"renames": "id:key"}),
    ("SetSchemaMetadata$Value", {"schema.name": "N", "schema.version": "7"}), ("SetSchemaMetadata$Key",
        {"schema.name": "K"}),
    *(("TimestampConverter$Value", {"field": f, "target.type": t, "format": "yyyy-MM-dd HH:mm:ss.SSS"})
      for f in ("ts", "l", "text", "day", "clock", "i") for t in ("string", "unix", "Date", "Time",
          "Timestamp")),
    *(("TimestampConverter$Value", {"target.type": t, "format": "yyyy-MM-dd"}) for t in ("string", "Date",
        "Timestamp")),
    *(("TimestampConverter$Value", {"field": "l", "target.type": "unix",
        "unix.precision": p}) for p in ("seconds", "microseconds")),
    ("TimestampConverter$Value", {"field": "ts", "target.type": "unix", "unix.precision": "nanoseconds"}),
    ("TimestampConverter$Value", {"field": "ts", "target.type": "unix", "unix.precision": "seconds"}),
    ("TimestampRouter", {}), ("TimestampRouter", {"topic.format": "a-${timestamp}-${topic}",
        "timestamp.format": "yyyy-MM-dd'T'HH"}),
    ("ValueToKey", {"fields": "i,s"}), ("ValueToKey", {"fields": "nope"}),
    ("ValueToKey", {"fields": "s", "replace.null.with.default": "false"}),
]  # fmt: skip
PATTERNS = [
    "yyyy-MM-dd HH:mm:ss.SSS",
    "EEE, d MMM yy h:m a",
    "yyyyMMdd'T'HHmmssZ",
    "MMMM dd ''yy X",
    "D K k u z",
]


def transform_questions() -> list[Question]:
    """Of transforms."""
    made: list[Question] = []
    keys: list[Any] = [
        {"schema": struct(field("id", "int32", False)), "payload": {"id": 5}},
        {"schema": None, "payload": {"id": 5}},
        None,
    ]
    for name, config in SPECS:
        both = "$Key" in name
        for index, value in enumerate(VALUES[:1] if both else VALUES):
            for key in keys if both else [keys[index % 3]]:
                record = {
                    "topic": "topic",
                    "partition": 3,
                    "offset": 17,
                    "timestamp": 1700000000123,
                    "key": key,
                    "value": value,
                    "headers": HEADERS,
                }
                made.append(
                    {"op": "transform", "type": TRANSFORMS + name, "config": config, "record": record}
                )
    late = {"schema": {"type": "int64"}, "payload": 1700000000123}
    for pattern in PATTERNS:
        config = {"target.type": "string", "format": pattern}
        made.append(
            {
                "op": "transform",
                "type": f"{TRANSFORMS}TimestampConverter$Value",
                "config": config,
                "record": {"value": late},
            }
        )
    for pattern, text in [
        ("yyyy-MM-dd", "2024-02-31"),
        ("yyyyMMddHHmm", "202401020304"),
        ("d MMM yyyy", "3 feb 2021"),
        ("yy", "69"),
        ("yyyy-MM-dd'T'HH:mm:ssX", "2024-01-01T00:00:00+02"),
        ("yyyy", "x"),
        ("h a", "12 AM"),
    ]:
        config = {"target.type": "Timestamp", "format": pattern}
        value = {"schema": {"type": "string"}, "payload": text}
        made.append(
            {
                "op": "transform",
                "type": f"{TRANSFORMS}TimestampConverter$Value",
                "config": config,
                "record": {"value": value},
            }
        )
    return made


def settings_questions() -> list[Question]:
    """Of the settings of all classes."""
    transforms = {name for name, _ in SPECS}
    predicates = {f"predicates.{name}" for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")}
    kinds = [JSON_CONVERTER, STRING_CONVERTER, *(f"{CONVERTERS}{name}Converter" for name in BYTES_OF)]
    kinds += [TRANSFORMS + name for name in sorted(transforms | predicates)]
    return [{"op": "configdef", "type": kind} for kind in kinds]


def all_questions() -> dict[str, list[Question]]:
    """By the part that they are about."""
    return {
        "json": json_questions(),
        "primitive": primitive_questions(),
        "header": header_questions(),
        "transform": transform_questions(),
        "settings": settings_questions(),
    }


def answers(part: str) -> list[tuple[Question, Question]]:
    """Questions with Kafka's answers."""
    found: list[tuple[Question, Question]] = json.loads(gzip.decompress(ANSWERS.read_bytes()))[part]
    return found


if __name__ == "__main__":
    from bench.apache_kafka.connect_oracle import ask

    recorded = {
        part: list(zip(questions, ask(questions), strict=True)) for part, questions in all_questions().items()
    }
    for _, answer in recorded["settings"]:
        for row in answer["settings"]:
            del row["doc"]
    ANSWERS.write_bytes(gzip.compress(json.dumps(recorded, separators=(",", ":")).encode(), mtime=0))
