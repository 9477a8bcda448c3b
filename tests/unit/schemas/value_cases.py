"""JSON values of Avro and Protobuf; confluent_values.json has what Confluent's Java writes and prints for "
"them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("confluent_values.json")

_RECORD = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}]},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "parts", "type": {"type": "array", "items": ["null", "shop.Order"]}},
        {"name": "seal", "type": {"type": "fixed", "name": "Seal", "size": 2}},
        {"name": "raw", "type": "bytes"},
        {"name": "small", "type": "float"},
        {"name": "large", "type": "double"},
        {"name": "yes", "type": "boolean"},
    ],
}
_LEAF = {
    "id": -1,
    "note": None,
    "tags": {},
    "parts": [],
    "seal": "\u0000\u00ff",
    "raw": "",
    "small": 1.1,
    "large": 1e300,
    "yes": False,
}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
_DATES = {
    "type": "record",
    "name": "D",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": _DECIMAL},
    ],
}
_PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 order_id = 1;
  repeated string tag_names = 2;
  map<string, Part> parts = 3;
  Kind kind = 4;
  google.protobuf.Timestamp at = 5;
  google.protobuf.Int32Value count = 6;
  oneof who { string name = 7; bytes token = 8; }
  optional bool sure = 9;
  double price = 10;
  float weight = 11;
  uint64 size = 12 [json_name = "SIZE"];
  message Part { sint32 n = 1; repeated fixed32 f = 2; }
}
enum Kind { NONE = 0; SOME = 1; }
"""

VALUES: dict[str, tuple[str, str, Any]] = {
    **{
        f"avro {name}": ("AVRO", json.dumps(schema), value)
        for name, schema, value in (
            ("int", "int", -(2**31)),
            ("long", "long", 2**63 - 1),
            ("float", "float", 0.1),
            ("double", "double", 0.1),
            ("string", "string", 'é"\\ \U0001f600'),
            ("bytes", "bytes", "\u0000\u007f\u00ff"),
            ("array", {"type": "array", "items": "int"}, [1, 2, 3]),
            ("record", _RECORD, {**_LEAF, "note": {"string": "x"}, "tags": {"a": 1}}),
            (
                "nested record",
                _RECORD,
                {**_LEAF, "note": {"shop.Kind": "B"}, "parts": [{"shop.Order": _LEAF}, None]},
            ),
            ("logical types", _DATES, {"day": 20780, "at": 1795404960000, "price": "\u0001\u0000"}),
            ("union without its branch", ["null", "int"], 5),
            ("wrong branch", ["null", "int"], {"long": 5}),
            ("text for a number", "int", "5"),
            ("number too large", "int", 2**31),
            ("missing field", _RECORD, {"id": 1}),
            ("unknown symbol", {"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
            ("fixed of another size", {"type": "fixed", "name": "F", "size": 2}, "abc"),
        )
    },
    **{
        f"protobuf {name}": ("PROTOBUF", _PROTO, value)
        for name, value in (
            ("nothing", {}),
            (
                "everything",
                {
                    "orderId": "9007199254740993",
                    "tagNames": ["a", "é"],
                    "parts": {"x": {"n": -1, "f": [1, 4294967295]}},
                    "kind": "SOME",
                    "at": "2026-11-23T03:37:00.123456789Z",
                    "count": 0,
                    "token": "AP8=",
                    "sure": False,
                    "price": "Infinity",
                    "weight": 1.1,
                    "SIZE": "18446744073709551615",
                },
            ),
            ("names of the file", {"order_id": 1, "tag_names": ["a"], "size": 3}),
            ("numbers of enums", {"kind": 1}),
            ("an enum's unknown number", {"kind": 77}),
            ("null for not set", {"name": None, "tagNames": None, "at": None}),
            ("unknown field", {"colour": 1}),
            ("unknown symbol", {"kind": "ALL"}),
            ("two of a oneof", {"name": "a", "token": "AA=="}),
        )
    },
}
"""By name: language, schema, value."""


def questions() -> list[dict[str, Any]]:
    """What the Java class is asked."""
    return [{"type": kind, "schema": schema, "value": value} for kind, schema, value in VALUES.values()]


def recorded() -> dict[str, dict[str, Any]]:
    """The answers by name."""
    answers: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return answers
