"""The door to the decoders: headers, GUIDs, slices, registries that fail, many ids.

And C and Python count their operations alike.
"""

from __future__ import annotations

import json
import re
import uuid
from enum import IntEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moldau.schemas import columns
from moldau.schemas.columns import Decoder, UnknownSchema, decoder, kernel
from moldau.schemas.columns.encode_kernel import Reason
from moldau.schemas.columns.kernel import PythonKernel
from moldau.schemas.columns.program import Kind, Layout, Op
from moldau.schemas.columns.writing import Put
from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType
from moldau.schemas.wire import pack_guid, pack_header

FOLDER = Path(columns.__file__).parent
GUID = str(uuid.UUID(int=5))


def avro(kind: str, name: str = "R") -> ParsedSchema:
    fields = [{"name": "n", "type": kind}]
    return parse(SchemaText(SchemaType.AVRO, json.dumps({"type": "record", "name": name, "fields": fields})))


@pytest.fixture(params=("compiled", "python"))
def any_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel in turn."""
    if request.param == "python":
        monkeypatch.setattr(kernel, "compiled", None)
    elif kernel.compiled is None:
        pytest.skip("the kernel is not installed: there was no C compiler")


def names_in(path: Path, prefix: str, first: str) -> list[str]:
    """The names of the C enum that begins with `first`, in order."""
    found = re.search(rf"enum \{{\s*{prefix}{first}\b.*?\}}", path.read_text(), re.S)
    assert found is not None
    return re.findall(rf"{prefix}(\w+)", found[0])


@pytest.mark.parametrize(
    ("path", "prefix", "table"),
    [
        ("_decode.c", "OP_", Op),
        ("_encode.c", "PUT_", Put),
    ],
)
def test_c_and_python_number_their_operations_alike(path: str, prefix: str, table: type[IntEnum]) -> None:
    assert [each.value for each in table] == list(range(len(table)))
    assert names_in(FOLDER / path, prefix, next(iter(table)).name) == [each.name for each in table]


def test_c_and_python_number_kinds_and_reasons_alike() -> None:
    kinds = ["NULL", "BOOLEAN", "4", "8", "16", "BYTES", "LIST", "STRUCT"]
    assert [each.name.removeprefix("WIDE_") for each in Kind] == kinds
    for path in ("column_buffers.h", "_encode.c"):
        assert names_in(FOLDER / path, "KIND_", "NULL") == kinds
    text = (FOLDER / "_encode.c").read_text()
    for reason in Reason:
        assert f"{reason.name} = {reason.value}" in text


@pytest.mark.usefixtures("any_kernel")
def test_parts_of_arrays_and_other_binary_types() -> None:
    schema = avro("int")
    values = [pack_header(1) + bytes([2 * number]) if number % 3 else None for number in range(20)]
    for kind in (pa.binary(), pa.large_binary()):
        rows, bad = Decoder(schema, lambda schema_id: schema).decode(pa.array(values, kind).slice(5, 9))
        expected = [{"n": number} if number % 3 else None for number in range(5, 14)]
        assert (rows.to_pylist(), bad.to_pylist()) == (expected, [False] * 9)
    rows, bad = Decoder(schema, lambda schema_id: schema).decode(pa.array([], pa.binary()))
    assert (len(rows), len(bad)) == (0, 0)


@pytest.mark.usefixtures("any_kernel")
@pytest.mark.parametrize("kind", ["string", ["null", "string"]])
def test_short_texts_of_all_sizes_are_utf8_or_bad(kind: Any) -> None:
    """The kernel has a way of its own for texts of up to eight bytes."""
    schema = avro(kind)
    texts = [b"", *(b"abcdefghijk"[:size] for size in range(1, 12))]
    for size in range(1, 12):
        for at in range(size):
            for piece in (b"\xc3\xa9", b"\xff", b"\xc3"):  # a letter, no letter, the half of one
                texts.append((b"x" * at + piece + b"y" * size)[:size])
    branch = b"" if kind == "string" else b"\2"
    values = [pack_header(1) + branch + bytes([2 * len(text)]) + text for text in texts]
    rows, bad = Decoder(schema, lambda schema_id: schema).decode(pa.array(values * 2))
    expected = []
    for text in texts:
        try:
            expected.append({"n": text.decode()})
        except UnicodeDecodeError:
            expected.append(None)
    assert rows.to_pylist() == expected * 2
    assert bad.to_pylist() == [each is None for each in expected] * 2
    cut, bad = Decoder(schema, lambda schema_id: schema).decode(pa.array([each[:-1] for each in values]))
    assert all(bad.to_pylist())
    assert cut.null_count == len(values)


@pytest.mark.usefixtures("any_kernel")
def test_guids_in_values_and_in_headers() -> None:
    schema = avro("int")
    asked: list[str] = []

    def by_guid(guid: str) -> ParsedSchema:
        asked.append(guid)
        return schema

    made = Decoder(schema, lambda schema_id: schema, by_guid)
    values = pa.array([pack_guid(GUID) + b"\x02", b"\x04", pack_header(1) + b"\x06", None, b""])
    headers = pa.array([None, pack_guid(GUID), None, pack_header(1), pack_header(1)])
    rows, bad = made.decode(values, headers)
    assert rows.to_pylist() == [{"n": 1}, {"n": 2}, {"n": 3}, None, None]
    assert bad.to_pylist() == [False, False, False, False, True]
    assert asked == [GUID]
    without = Decoder(schema, lambda schema_id: schema)
    assert without.decode(values.slice(0, 1))[1].to_pylist() == [True]
    assert "GUID" in without.problems[GUID]


@pytest.mark.usefixtures("any_kernel")
def test_a_registry_that_fails_ends_the_batch_and_leaves_nothing() -> None:
    schema, down = avro("int"), [True]

    def by_id(schema_id: int) -> ParsedSchema:
        if schema_id == 2 and down[0]:
            raise TimeoutError("the registry does not answer")
        return schema

    made = Decoder(schema, by_id)
    values = pa.array([pack_header(1) + b"\x02", pack_header(2) + b"\x04"])
    with pytest.raises(TimeoutError):
        made.decode(values)
    down[0] = False
    assert made.decode(values)[0].to_pylist() == [{"n": 1}, {"n": 2}]


@pytest.mark.usefixtures("any_kernel")
def test_more_ids_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "HEADERS_MAX", 3)
    schema = avro("int")

    def by_id(schema_id: int) -> ParsedSchema:
        if schema_id % 2:
            raise UnknownSchema(f"no schema {schema_id}")
        return schema

    made = Decoder(schema, by_id)
    values = pa.array([pack_header(number % 8) + bytes([number * 2]) for number in range(50)])
    rows, bad = made.decode(values)
    assert rows.to_pylist() == [None if number % 2 else {"n": number} for number in range(50)]
    assert bad.to_pylist() == [bool(number % 2) for number in range(50)]
    assert len(made.problems) <= 3


@pytest.mark.usefixtures("any_kernel")
def test_schemas_that_cannot_be_read_say_why() -> None:
    reader = avro("int")
    others: dict[int, Any] = {
        1: avro("string"),
        2: parse(SchemaText(SchemaType.JSON, "{}")),
    }
    made = Decoder(reader, others.__getitem__)
    _, bad = made.decode(pa.array([pack_header(1) + b"\x00", pack_header(2) + b"{}"]))
    assert bad.to_pylist() == [True, True]
    assert made.problems == {
        1: "n was written as string, and is read as int",
        2: "it is a schema of type JSON, not of AVRO as the reader's",
    }


def test_a_kernel_refuses_programs_that_are_none() -> None:
    made = kernel.compiled
    if made is None:
        pytest.skip("the kernel is not installed: there was no C compiler")
    layout = Layout(pa.struct([("n", pa.int32())])).packed()
    for broken in (b"", layout[:-1] + b"\x7f", b"\xff" * 24):
        with pytest.raises(ValueError, match="layout"):
            made.Kernel(broken, False)
    one = made.Kernel(layout, False)
    words = (Op.INT, 9, 0, 0, 0, 0, -1, 0)
    nodes = b"".join(word.to_bytes(4, "little", signed=True) for word in words)
    with pytest.raises(ValueError, match="program"):
        one.add(b"x", nodes, b"", [], 0)
    with pytest.raises(ValueError, match="outside"):
        one.run(None, b"\0\0\0\0\xff\0\0\0", b"short", 0, 1)
    assert isinstance(PythonKernel(layout, False).take(), tuple)
