"""Registry converters and bytes that somebody has made: refused or read, they cost what they weigh."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.connect import Schema, Type, batch_of
from moldau.connect.converters.registry.converters import (
    AvroConverter,
    JsonSchemaConverter,
    ProtobufConverter,
)
from moldau.connect.schema import array_schema, map_schema, struct_schema
from moldau.connect.values import python_values

sys.path.insert(0, str(Path(__file__).parents[1] / "schemas"))
from fake_registry import FakeRegistry

_TEXT, _LONG = Schema(Type.STRING, True), Schema(Type.INT64, True)
_SCHEMA = struct_schema(
    {
        "a": _LONG,
        "b": _TEXT,
        "c": array_schema(_TEXT, True),
        "d": map_schema(Schema(Type.STRING), _LONG, True),
    }
)
_GOOD = {"a": 300, "b": "ab", "c": ["x", "y"], "d": {"k": 1}}
_KINDS = [AvroConverter, JsonSchemaConverter, ProtobufConverter]
_EDITS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 8), st.binary(max_size=10)), min_size=1, max_size=4
)


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture(scope="module", params=_KINDS, ids=lambda kind: kind.__name__)
def made(request: pytest.FixtureRequest, registry: FakeRegistry) -> Any:
    converter = request.param()
    converter.configure({"schema.registry.url": [registry.url]}, False)
    return converter


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=_EDITS)
def test_a_record_that_was_tampered_with_harms_no_other(
    made: Any, edits: list[tuple[int, int, bytes]]
) -> None:
    payloads, refused = made.to_payloads("t", batch_of("t", [_GOOD], _SCHEMA).value)
    assert refused == []
    good = payloads[0].as_py()
    tampered = bytearray(good[5:])
    for at, gone, new in edits:
        tampered[at : at + gone] = new
    runs, refused = made.to_columns("t", pa.array([good, good[:5] + bytes(tampered), good], pa.binary()))
    rows = {each.first + row: value for each in runs for row, value in enumerate(python_values(each.column))}
    assert rows[0] == rows[2] == _GOOD
    assert {1} >= {each.row for each in refused}
    assert {*rows, *(each.row for each in refused)} == {0, 1, 2}


@pytest.mark.parametrize(
    "items", ['"null"', '{"type":"record","name":"E","fields":[]}', '{"type":"fixed","name":"F","size":0}']
)
@pytest.mark.parametrize("count", [10**6, 10**9, 2**40, 2**62])
def test_a_few_bytes_do_not_become_a_gigabyte(registry: FakeRegistry, items: str, count: int) -> None:
    converter = AvroConverter()
    converter.configure({"schema.registry.url": [registry.url]}, False)
    schema_id = registry.add(f"hostile-{count}", f'{{"type":"array","items":{items}}}')
    before, began = pa.total_allocated_bytes(), time.thread_time()
    payload = b"\0" + schema_id.to_bytes(4, "big") + _long(count) + b"\0"
    runs, refused = converter.to_columns("t", pa.array([payload], pa.binary()))
    assert (runs, [each.row for each in refused]) == ([], [0])
    assert pa.total_allocated_bytes() - before < 2**20
    assert time.thread_time() - began < 5


def _long(value: int) -> bytes:
    """Avro's zigzag of seven bits a byte."""
    left, made = value << 1, b""
    while left > 0x7F:
        made, left = made + bytes([left & 0x7F | 0x80]), left >> 7
    return made + bytes([left])
