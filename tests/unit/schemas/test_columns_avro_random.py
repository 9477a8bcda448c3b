"""Random Avro schemas, values and evolutions: the compiled decoder, its twin and fastavro agree; on damaged
records the first two do, and neither reads outside of them.
"""

from __future__ import annotations

import io
import json
import math
import random
import string
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from avro_oracle import expected_row, raw_schema

from moldau.schemas.columns import Decoder, NoColumns, kernel, spark_types
from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
)
PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


class Schemas:
    """Makes schemas, values of them, and readers that they evolved to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._names = 0

    def _name(self) -> str:
        self._names += 1
        return f"N{self._names}"

    def type(self, depth: int, union: bool = True) -> Any:
        rng = self.rng
        kinds = ["primitive"] * 6 + ["logical", "enum", "fixed", "decimal"]
        kinds += ["record", "array", "map"] * (depth > 0) + ["union"] * 3 * union
        kind = rng.choice(kinds)
        if kind == "primitive":
            return rng.choice(PRIMITIVES)
        if kind == "logical":
            return dict(rng.choice(LOGICAL))
        if kind == "enum":
            symbols = rng.sample(string.ascii_uppercase, rng.randrange(1, 5))
            return {"type": "enum", "name": self._name(), "symbols": symbols}
        if kind == "fixed":
            return {"type": "fixed", "name": self._name(), "size": rng.randrange(1, 20)}
        if kind == "decimal":
            own = {"type": "fixed", "name": self._name(), "size": 8}
            return own | {"logicalType": "decimal", "precision": 18, "scale": 2}
        if kind == "record":
            return self.record(depth - 1)
        if kind == "array":
            return {"type": "array", "items": self.type(depth - 1)}
        if kind == "map":
            return {"type": "map", "values": self.type(depth - 1)}
        branches: list[Any] = ["null"] if rng.random() < 0.7 else []
        for _ in range(rng.randrange(1, 4)):
            branch = self.type(depth - 1, union=False)
            if _kind(branch) not in [_kind(each) for each in branches]:
                branches.append(branch)
        return branches

    def record(self, depth: int) -> dict[str, Any]:
        fields = [
            {"name": f"f{index}", "type": self.type(depth)} for index in range(self.rng.randrange(1, 6))
        ]
        return {"type": "record", "name": self._name(), "fields": fields}

    def value(self, kind: Any) -> Any:
        rng = self.rng
        if isinstance(kind, list):
            return self.value(rng.choice(kind))
        if isinstance(kind, str):
            kind = {"type": kind}
        name = kind["type"]
        if kind.get("logicalType") == "decimal":
            limit = 10 ** kind["precision"] - 1
            number = rng.choice((0, 1, -1, limit, -limit, rng.randrange(-limit, limit)))
            size = kind.get("size") or number.bit_length() // 8 + 1
            return number.to_bytes(size, "big", signed=True)
        if name == "record":
            return {each["name"]: self.value(each["type"]) for each in kind["fields"]}
        if name == "array":
            return [self.value(kind["items"]) for _ in range(rng.choice((0, 1, 2, 5)))]
        if name == "map":
            return {rng.choice("abcdefgh") + "ß": self.value(kind["values"]) for _ in range(rng.randrange(3))}
        if name == "enum":
            return rng.choice(kind["symbols"])
        if name == "fixed":
            return rng.randbytes(kind["size"])
        if name == "long":
            bound = 2**51 if "logicalType" in kind else 2**63
            return rng.choice((0, -1, bound - 1, -bound, rng.randrange(-bound, bound)))
        return {
            "null": None,
            "boolean": rng.random() < 0.5,
            "int": rng.choice((0, -1, 2**31 - 1, -(2**31), rng.randrange(300))),
            "float": rng.choice((0.0, -0.5, 1.5e30, math.inf)),
            "double": rng.choice((0.0, 0.1, -1e300, math.inf)),
            "bytes": rng.randbytes(rng.randrange(20)),
            "string": "".join(rng.choice("aß€😀 ") for _ in range(rng.randrange(12))),
        }[name]

    def reader(self, kind: Any) -> Any:
        """A schema that values of `kind` can be read with, mostly."""
        rng = self.rng
        if isinstance(kind, list):
            return [self.reader(each) if isinstance(each, dict) else each for each in kind]
        if isinstance(kind, str):
            wider = PROMOTIONS.get(kind, ())
            if wider and rng.random() < 0.3:
                return rng.choice(wider)
            return ["null", kind] if kind != "null" and rng.random() < 0.1 else kind
        name = kind["type"]
        if name == "record":
            fields = [{**each, "type": self.reader(each["type"])} for each in kind["fields"]]
            fields = [each for each in fields if rng.random() < 0.8]
            rng.shuffle(fields)
            if rng.random() < 0.5:
                fields.append({"name": "added", "type": ["null", "string"], "default": None})
                fields.append({"name": "more", "type": {"type": "array", "items": "int"}, "default": [1, 2]})
            return {**kind, "fields": fields}
        if name in ("array", "map"):
            part = "items" if name == "array" else "values"
            return {**kind, part: self.reader(kind[part])}
        return kind


def _kind(kind: Any) -> Any:
    """What may be in a union once, for the oracle to know the branch by the Python type of a value."""
    if not isinstance(kind, dict):
        return {"long": "int", "double": "float", "string": "bytes"}.get(kind, kind)
    return _kind(kind["type"]) if kind["type"] not in ("record", "enum", "fixed") else kind["name"]


def avro(source: Any) -> ParsedSchema:
    return parse(SchemaText(SchemaType.AVRO, json.dumps(source)))


def decoders(writer: Any, reader: Any, monkeypatch: pytest.MonkeyPatch) -> list[Decoder]:
    """Compiled (where it is installed) and in Python."""
    made = []
    for compiled in {kernel.compiled, None}:
        with monkeypatch.context() as patched:
            patched.setattr(kernel, "compiled", compiled)
            made.append(Decoder(avro(reader), lambda schema_id: avro(writer)))
    return made


def framed(payload: bytes) -> bytes:
    return b"\0\0\0\0\7" + payload


def same(left: pa.Array, right: pa.Array) -> bool:
    """Equal arrays; their buffers too, so that NaNs count as equal."""
    if left.type != right.type or len(left) != len(right):
        return False
    return bool(left.equals(right)) or [_bytes(each) for each in left.buffers()] == [
        _bytes(each) for each in right.buffers()
    ]


def _bytes(buffer: pa.Buffer | None) -> bytes | None:
    return None if buffer is None else buffer.to_pybytes()


@pytest.mark.parametrize("seed", range(60))
def test_kernel_twin_and_fastavro_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = Schemas(seed)
    writer = schemas.record(3)
    readers = [writer, schemas.reader(writer), schemas.reader(writer)]
    raw = raw_schema(json.dumps(writer))
    payloads = []
    for _ in range(12):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, raw, schemas.value(writer))
        payloads.append(stream.getvalue())
    values = pa.array([framed(each) for each in payloads])
    for reader in readers:
        results = [each.decode(values) for each in decoders(writer, reader, monkeypatch)]
        for rows, bad in results:
            rows.validate(full=True)
            assert same(rows, results[0][0])
            assert same(bad, results[0][1])
        rows, bad = results[0]
        for index, payload in enumerate(payloads):
            try:
                expected = pa.array(
                    [expected_row(json.dumps(writer), json.dumps(reader), payload)], rows.type
                )
            except (fastavro.read.SchemaResolutionError, ValueError, pa.ArrowInvalid, UnicodeDecodeError):
                assert bad[index].as_py()
                continue
            assert not bad[index].as_py(), (reader, payload)
            assert rows.slice(index, 1).equals(expected), (reader, payload)


def damaged(rng: random.Random, payload: bytes) -> bytes:
    """Bits flipped, bytes cut, inserted, and numbers that lie."""
    data = bytearray(payload)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(5)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 4))
        elif kind == 3:
            data[at:at] = rng.choice((b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\xfe\xff\xff\xff\x0f", b"\x80"))
        elif data:
            data[at % len(data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(data)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_records_are_the_same_to_kernel_and_twin(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = Schemas(1000 + seed)
    writer = schemas.record(3)
    reader = schemas.reader(writer)
    raw = raw_schema(json.dumps(writer))
    values = []
    for _ in range(60):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, raw, schemas.value(writer))
        values.append(framed(damaged(schemas.rng, stream.getvalue())))
    results = [each.decode(pa.array(values)) for each in decoders(writer, reader, monkeypatch)]
    for rows, bad in results:
        rows.validate(full=True)
        assert bad.equals(results[0][1])
        assert same(rows, results[0][0])


def test_records_that_use_records_twice_have_too_many_columns() -> None:
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
    for level in range(1, 40):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(NoColumns, match="columns"):
        spark_types(avro(schema))


def test_a_recursive_record_has_no_columns_but_can_be_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    writer = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "list", "type": node}, {"name": "n", "type": "int"}],
    }
    with pytest.raises(NoColumns, match="contains itself"):
        spark_types(avro(writer))
    reader = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}]}
    for decoder in decoders(writer, reader, monkeypatch):
        short, deep = framed(b"\x02" * 10 + b"\0\x0a"), framed(b"\x02" * 100_000 + b"\0\x0a")
        rows, bad = decoder.decode(pa.array([short, deep]))
        assert (rows.to_pylist(), bad.to_pylist()) == ([{"n": 5}, None], [False, True])


def test_items_of_no_bytes_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    nulls = {"type": "array", "items": "null"}
    schema = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": nulls}]}
    count = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2**63 - 1
    for decoder in decoders(schema, schema, monkeypatch):
        values = [framed(count + b"\0"), framed(b"\xd0\x0f\0"), framed(b"\xd0\x0f" * 2 + b"\0")]
        rows, bad = decoder.decode(pa.array(values))
        assert bad.to_pylist() == [True, False, True]
        assert len(rows[1]["a"]) == 1000
