"""Departures of nine fields in the three languages: what the figures of schemas code."""

from __future__ import annotations

import io
import json
import random
from typing import Any

SCHEMA_ID = 7
ROWS = 200_000

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Departure",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "carrier", "type": "string"},
        {"name": "origin", "type": "string"},
        {"name": "dest", "type": "string"},
        {"name": "delay", "type": ["null", "double"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "distance", "type": "int"},
        {"name": "cancelled", "type": "boolean"},
        {"name": "tail", "type": ["null", "string"], "default": None},
    ],
}
EVOLVED: dict[str, Any] = {
    **AVRO,
    "fields": [
        {"name": "gate", "type": "string", "default": "?"},
        *(each for each in AVRO["fields"] if each["name"] != "origin"),
    ],
}
PROTOBUF = """
syntax = "proto3";
message Departure {
  int64 id = 1; string carrier = 2; string origin = 3; string dest = 4; optional double delay = 5;
  int64 at = 6; int32 distance = 7; bool cancelled = 8; optional string tail = 9;
}
"""
JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        **{name: {"type": "string"} for name in ("carrier", "origin", "dest", "tail")},
        "delay": {"type": "number"},
        "at": {"type": "integer"},
        "distance": {"type": "integer"},
        "cancelled": {"type": "boolean"},
    },
}


def departures(count: int = ROWS) -> list[dict[str, Any]]:
    """The rows, the same ones every time."""
    rng = random.Random(7)
    carriers, airports = ["UA", "AA", "DL", "B6"], ["EWR", "JFK", "LGA", "IAH", "MIA", "ORD"]
    return [
        {
            "id": number,
            "carrier": rng.choice(carriers),
            "origin": rng.choice(airports),
            "dest": rng.choice(airports),
            "delay": None if number % 7 == 0 else rng.randrange(-20, 200) / 1.0,
            "at": 1_760_000_000_000 + number * 37,
            "distance": rng.randrange(90, 5000),
            "cancelled": number % 50 == 0,
            "tail": None if number % 11 == 0 else f"N{number % 3000:05}",
        }
        for number in range(count)
    ]


def avro_payloads(rows: list[dict[str, Any]]) -> list[bytes]:
    """Without the five bytes in front."""
    import fastavro

    schema = fastavro.parse_schema(AVRO)
    payloads = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, row)
        payloads.append(stream.getvalue())
    return payloads


def json_payloads(rows: list[dict[str, Any]]) -> list[bytes]:
    """A field that is null is left out."""
    return [
        json.dumps({name: value for name, value in row.items() if value is not None}).encode() for row in rows
    ]
