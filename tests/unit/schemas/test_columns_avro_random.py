"""Random Avro schemas, values and evolutions: the compiled decoder, its twin and fastavro agree; on damaged
records the first two do, and neither reads outside of them.
"""

from __future__ import annotations

import io
import json
import random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from avro_oracle import expected_row, raw_schema
from avro_random import Schemas

from moldau.schemas.columns import Decoder, NoColumns, kernel, spark_types
from moldau.schemas.languages import parse
from moldau.schemas.schema import InvalidSchema, ParsedSchema, SchemaText, SchemaType


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


def test_a_decimal_of_two_gigabytes_costs_nothing_to_look_at() -> None:
    decimal = {"type": "fixed", "name": "D", "logicalType": "decimal", "precision": 9, "scale": 2}
    for size, kind in ((4, pa.decimal128(9, 2)), (3, pa.binary()), (2**31 - 9, pa.decimal128(9, 2))):
        schema = {
            "type": "record",
            "name": "Row",
            "fields": [{"name": "d", "type": {**decimal, "size": size}}],
        }
        assert spark_types(avro(schema)).field("d").type == kind


def test_references_that_nest_deep_are_a_sentence() -> None:
    def record(level: int) -> str:
        field = {"name": "n", "type": f"R{level - 1}" if level else "int"}
        return json.dumps({"type": "record", "name": f"R{level}", "fields": [field]})

    for depth, nests in ((100, False), (250, True), (2000, True)):
        dependencies = {f"R{level}": record(level) for level in range(depth)}
        schema = parse(SchemaText(SchemaType.AVRO, record(depth)), dependencies)
        if not nests:
            assert spark_types(schema).names == ["n"]
            continue
        with pytest.raises(InvalidSchema, match="nests deeper than 200 types"):
            spark_types(schema)


def test_items_of_no_bytes_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    nulls = {"type": "array", "items": "null"}
    schema = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": nulls}]}
    count = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2**63 - 1
    for decoder in decoders(schema, schema, monkeypatch):
        values = [framed(count + b"\0"), framed(b"\xd0\x0f\0"), framed(b"\xd0\x0f" * 2 + b"\0")]
        rows, bad = decoder.decode(pa.array(values))
        assert bad.to_pylist() == [True, False, True]
        assert len(rows[1]["a"]) == 1000
