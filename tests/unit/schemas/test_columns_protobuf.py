"""Protobuf records <-> columns: every type, presence, evolution, damaged and hostile records; the compiled
decoder, its twin and Google's library agree.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message_factory import GetMessageClass
from protobuf_random import fill, random_schema

from moldau.schemas.columns import Decoder, NoColumns, kernel, spark_types
from moldau.schemas.columns.protobuf_types import is_map, message_of, time_unit
from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType
from moldau.schemas.wire import pack_header


def protobuf(text: str) -> ParsedSchema:
    return parse(SchemaText(SchemaType.PROTOBUF, text))


@pytest.fixture(params=("compiled", "python"))
def any_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel in turn."""
    if request.param == "python":
        monkeypatch.setattr(kernel, "compiled", None)
    elif kernel.compiled is None:
        pytest.skip("the kernel is not installed: there was no C compiler")


def decode(
    reader: ParsedSchema,
    payloads: list[bytes],
    writer: ParsedSchema | None = None,
    indexes: tuple[int, ...] = (0,),
) -> tuple[list[Any], list[bool]]:
    decoder = Decoder(reader, lambda schema_id: writer or reader)
    rows, bad = decoder.decode(pa.array([pack_header(3, indexes) + each for each in payloads], pa.binary()))
    rows.validate(full=True)
    return rows.to_pylist(), bad.to_pylist()


@pytest.mark.usefixtures("any_kernel")
def test_what_does_not_come() -> None:
    schema = protobuf(
        """
        syntax = "proto3";
        message Row {
          int32 plain = 1; optional int32 maybe = 2; Inner inner = 3; repeated string many = 4;
          oneof one { string left = 5; int64 right = 6; }
          Color color = 7; map<string, Inner> by = 8; bytes raw = 9; bool yes = 10;
        }
        message Inner { int64 n = 1; }
        enum Color { RED = 0; BLUE = 1; }
        """
    )
    empty = {
        "plain": 0, "maybe": None, "inner": None, "many": [], "left": None, "right": None, "color": "RED",
        "by": [], "raw": b"", "yes": False,
    }  # fmt: skip
    payloads = [
        b"",
        b"\x10\x00" + b"\x2a\x01x" + b"\x30\x05",  # both of the oneof: the last counts
        b"\x1a\x02\x08\x05" + b"\x1a\x00",  # a message in two pieces: merged
        b"\x38\x07" + b"\x42\x03\x0a\x01k",  # an enum's unknown number; a map's value that does not come
        b"\x08\x01\x08\x02" + b"\xf8\xff\xff\xff\x0f\x01",  # twice; and a field that nobody knows
    ]
    rows, bad = decode(schema, payloads)
    assert bad == [False] * 5
    assert rows == [
        empty,
        empty | {"maybe": 0, "right": 5},
        empty | {"inner": {"n": 5}},
        empty | {"color": "UNKNOWN_ENUM_VALUE_Color_7", "by": [("k", {"n": 0})]},
        empty | {"plain": 2},
    ]


@pytest.mark.usefixtures("any_kernel")
def test_proto2() -> None:
    schema = protobuf(
        """
        syntax = "proto2";
        message Row {
          required int32 id = 1; optional string name = 2 [default = "none"];
          optional sint32 n = 3 [default = -7]; optional Color color = 4; repeated Color colors = 5;
          optional group Part = 6 { optional int32 x = 1; }
          optional double d = 7 [default = 0.5]; optional bool b = 8;
        }
        enum Color { RED = 3; BLUE = -1; }
        """
    )
    absent = {
        "id": 1, "name": "none", "n": -7, "color": None, "colors": [], "part": None, "d": 0.5, "b": None,
    }  # fmt: skip
    minus_one = b"\xff" * 9 + b"\x01"
    rows, bad = decode(
        schema,
        [
            b"\x08\x01",
            b"",
            b"\x08\x01\x20\x05\x28\x03\x28\x05\x2a\x0b\x03" + minus_one,
            b"\x08\x01\x33\x08\x09\x34",
            b"\x08\x01\x33\x08\x09\x3c",
        ],
    )
    assert bad == [False, True, False, False, True]
    assert rows == [
        absent,
        None,
        absent | {"colors": ["RED", "RED", "BLUE"]},
        absent | {"part": {"x": 9}},
        None,
    ]


@pytest.mark.usefixtures("any_kernel")
def test_times_maps_and_nothing() -> None:
    schema = protobuf(
        """
        syntax = "proto3";
        import "google/protobuf/timestamp.proto";
        import "google/protobuf/duration.proto";
        message Row {
          google.protobuf.Timestamp at = 1; repeated google.protobuf.Duration took = 2; Empty none = 3;
        }
        message Empty {}
        """
    )
    assert spark_types(schema).names == ["at", "took"]
    reader = Decoder(schema, lambda schema_id: schema)
    too_late = b"\x0a\x0b\x08" + b"\xff" * 8 + b"\x7f"
    payloads = [b"\x0a\x06\x08\x05\x10\xe8\x87\x03\x12\x00\x12\x02\x08\x01\x1a\x00", too_late, b"\x0a\x00"]
    rows, bad = reader.decode(pa.array([pack_header(1, (0,)) + each for each in payloads]))
    assert bad.to_pylist() == [False, True, False]
    assert rows.field("at").view(pa.int64()).to_pylist() == [5_000_050, None, 0]
    assert rows.field("took")[0].values.view(pa.int64()).to_pylist() == [0, 1_000_000]


@pytest.mark.usefixtures("any_kernel")
def test_another_message_of_the_file_is_bad() -> None:
    schema = protobuf(
        'syntax = "proto3"; package p; message A { int32 n = 1; message B { int32 m = 1; } } message C {}'
    )
    reordered = protobuf(
        'syntax = "proto3"; package p; message C {} message A { int32 n = 1; string s = 2; }'
    )
    assert decode(schema, [b"\x08\x01"], indexes=(0, 0)) == ([None], [True])
    assert decode(schema, [b"\x08\x01"], indexes=(7,)) == ([None], [True])
    assert decode(schema, [b"\x08\x01\x12\x01x"], reordered, (1,)) == ([{"n": 1}], [False])


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3"; message A { A a = 1; }',
        'syntax = "proto3"; message A { map<string, B> b = 1; } message B { repeated A a = 1; }',
        'import "google/protobuf/struct.proto"; message A { optional google.protobuf.Value s = 1; }',
        'syntax = "proto3"; enum E { A = 0; }',
    ],
)
def test_schemas_without_columns(text: str) -> None:
    with pytest.raises(NoColumns):
        spark_types(protobuf(text))


def test_messages_that_use_messages_twice_have_too_many_columns() -> None:
    levels = " ".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(30))
    with pytest.raises(NoColumns, match="columns"):
        spark_types(protobuf(f'syntax = "proto3"; {levels} message M30 {{ int32 x = 1; }}'))


def expected(message: Any) -> dict[str, Any]:
    """The row that columns have, from Google's message."""
    row = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if is_map(field):
            inner = field.message_type.fields_by_name["value"]
            outer = field.message_type.fields_by_name["key"]
            row[field.name] = {item(outer, key): item(inner, value[key]) for key in value}
        elif field.is_repeated:
            row[field.name] = [item(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = item(field, value)
    return row


def item(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return expected(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else f"UNKNOWN_ENUM_VALUE_E_{value}"
    if field.type in (4, 6) and value >= 2**63:
        return value - 2**64
    if field.type in (13, 7) and value >= 2**31:
        return value - 2**32
    return value


def with_dictionaries(value: Any, message: Any) -> Any:
    """Maps in rows as dictionaries; their order is no matter."""
    made = {}
    for field in message.fields:
        each = value[field.name]
        inner = field.message_type
        if is_map(field):
            nested = inner.fields_by_name["value"].message_type
            made[field.name] = {key: with_dictionaries(one, nested) if nested else one for key, one in each}
        elif inner is None or each is None or time_unit(inner):
            made[field.name] = each
        elif field.is_repeated:
            made[field.name] = [with_dictionaries(one, inner) for one in each]
        else:
            made[field.name] = with_dictionaries(each, inner)
    return made


def shuffled(rng: random.Random, message: Any) -> bytes:
    """The message in pieces: fields twice, messages to merge, packed and not."""
    other = type(message)()
    pieces = [message.SerializeToString() for _ in range(rng.choice((1, 1, 2)))]
    other.CopyFrom(message)
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.5:
            other.ClearField(field.name)
    pieces.insert(rng.randrange(len(pieces) + 1), other.SerializeToString())
    return b"".join(pieces)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.usefixtures("any_kernel")
def test_kernels_agree_with_googles_library(seed: int) -> None:
    rng = random.Random(seed)
    schema = protobuf(random_schema(rng))
    make = GetMessageClass(message_of(schema))
    payloads = [shuffled(rng, fill(rng, make())) for _ in range(8)]
    rows, bad = decode(schema, payloads)
    assert not any(bad)
    for row, payload in zip(rows, payloads, strict=True):
        assert with_dictionaries(row, make.DESCRIPTOR) == expected(make.FromString(payload))


@pytest.mark.parametrize("seed", range(30))
def test_damaged_records_are_the_same_to_kernel_and_twin(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1000 + seed)
    schema = protobuf(random_schema(rng))
    make = GetMessageClass(message_of(schema))
    payloads = []
    for _ in range(40):
        data = bytearray(fill(rng, make()).SerializeToString())
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data) + 1)
            change = rng.randrange(4)
            if change == 0 and data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            elif change == 1:
                del data[at:]
            elif change == 2:
                data[at:at] = rng.choice((b"\xff" * 9 + b"\x01", b"\x0b", b"\x0c", b"\xff" * 10, b"\x00"))
            elif data:
                del data[at % len(data)]
        payloads.append(bytes(data))
    values = pa.array([pack_header(1, (0,)) + each for each in payloads])
    results = []
    for compiled in {kernel.compiled, None}:
        monkeypatch.setattr(kernel, "compiled", compiled)
        rows, bad = Decoder(schema, lambda schema_id: schema).decode(values)
        rows.validate(full=True)
        results.append((rows, bad))
    assert results[0][1].equals(results[-1][1])
    assert repr(results[0][0].to_pylist()) == repr(results[-1][0].to_pylist())
    for payload, is_bad in zip(payloads, results[0][1].to_pylist(), strict=True):
        try:
            make.FromString(payload)
        except Exception:
            assert is_bad, payload


@pytest.mark.usefixtures("any_kernel")
def test_empty_messages_with_many_fields_cost_no_memory() -> None:
    fields = " ".join(f"int32 f{number} = {number};" for number in range(1, 2000))
    schema = protobuf(f'syntax = "proto3"; message A {{ repeated B b = 1; }} message B {{ {fields} }}')
    bomb, fine = b"\x0a\x00" * 600, b"\x0a\x00" * 20
    rows, bad = decode(schema, [bomb, fine])
    assert bad == [True, False]
    assert len(rows[1]["b"]) == 20


@pytest.mark.usefixtures("any_kernel")
def test_groups_within_groups_end() -> None:
    schema = protobuf('syntax = "proto3"; message A { int32 n = 1; }')
    fine = b"\x13" * 50 + b"\x14" * 50 + b"\x08\x01"
    assert decode(schema, [fine, b"\x13" * 100_000, b"\x14"]) == ([{"n": 1}, None, None], [False, True, True])
