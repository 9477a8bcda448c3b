"""Short schemas that ask for much: definitions that use definitions twice, and again. All end at once, with
a reason. (That they would run for hours otherwise is why these tests have no other limit than pytest's.)
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from moldau.schemas.columns import Decoder, NoColumns, decoder, kernel, program, spark_types
from moldau.schemas.columns.program import Program
from moldau.schemas.languages import parse
from moldau.schemas.schema import InvalidSchema, ParsedSchema, SchemaText, SchemaType
from moldau.schemas.serde import SerdeError, json_schema, serde_for
from moldau.schemas.wire import pack_header

ROW = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


def avro(source: Any) -> ParsedSchema:
    return parse(SchemaText(SchemaType.AVRO, json.dumps(source)))


def json_of(source: Any) -> ParsedSchema:
    return parse(SchemaText(SchemaType.JSON, json.dumps(source)))


def record(name: str, **fields: Any) -> dict[str, Any]:
    made = [{"name": each, "type": type_} for each, type_ in fields.items()]
    return {"type": "record", "name": name, "fields": made}


def doubled(depth: int) -> Any:
    """A record of 8 ** depth nulls, which take no byte."""
    inner: Any = "null"
    for level in range(depth):
        again = f"L{level - 1}" if level else "null"
        inner = record(f"L{level}", f0=inner, **{f"f{index}": again for index in range(1, 8)})
    return inner


def with_defaults(depth: int) -> Any:
    """A field whose default has 200 ** depth numbers."""
    inner: Any = "int"
    for level in range(depth):
        field = {"name": "x", "type": {"type": "array", "items": inner}}
        inner = {"type": "record", "name": f"D{level}", "fields": [field | {"default": [{}] * 200}]}
        if level == 0:
            inner["fields"][0]["default"] = [1] * 200
    return {**ROW, "fields": [*ROW["fields"], {"name": "z", "type": inner, "default": {}}]}


@pytest.fixture(params=("compiled", "python"))
def any_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel in turn."""
    if request.param == "python":
        monkeypatch.setattr(kernel, "compiled", None)
    elif kernel.compiled is None:
        pytest.skip("the kernel is not installed: there was no C compiler")


def decoded(reader: Any, writer: Any, payload: bytes) -> tuple[Any, str]:
    """The row, and why it is null."""
    made = Decoder(avro(reader), lambda _: avro(writer))
    rows, _ = made.decode(pa.array([pack_header(1) + payload]))
    return rows[0].as_py(), made.problems.get(1, "")


@pytest.mark.usefixtures("any_kernel")
def test_what_has_no_bytes_is_skipped_without_looking_into_it() -> None:
    last = record("R", z=doubled(12), a="int", y={"type": "array", "items": "L11"})
    assert decoded(ROW, last, b"\x02\x04\x00") == ({"a": 1}, "")


def test_a_default_of_a_million_values_is_none() -> None:
    row, problem = decoded(with_defaults(4), ROW, b"\x02")
    assert row is None
    assert "default of the field z" in problem


def test_unions_in_unions_are_not_all_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "NODES_MAX", 20_000)
    written, read = "int", "int"  # type: Any, Any
    for level in range(6):
        read = record(f"R{level}", f=read)
        inner = [f"W{level - 1}_{index}" for index in range(20)] if level else "int"
        written = [record(f"W{level}_{index}", f=inner if index else written) for index in range(20)]
    row, problem = decoded(record("R", a=read), record("R", a=written), bytes(7))
    assert row is None
    assert "steps" in problem


def test_headers_in_long_forms_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = parse(SchemaText(SchemaType.PROTOBUF, 'syntax="proto3"; message A { int32 a = 1; }'))
    made = Decoder(schema, lambda _: schema)
    monkeypatch.setattr(decoder, "PROGRAM_BYTES_MAX", 200)
    packed = []
    pack = Program.packed
    monkeypatch.setattr(Program, "packed", lambda self: packed.append(pack(self)) or packed[-1])
    first, then = pack_header(1), b"\x08\x01"
    longer = [first + b"\x80" * more + b"\x00" + then for more in range(5)]
    assert made.decode(pa.array(longer))[0].to_pylist() == [{"a": 1}] * 5
    assert len({id(nodes) for nodes, *_ in packed}) == 1


def all_of(depth: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/definitions/d{level + 1}"}] * 2} for level in range(depth)
    }
    definitions[f"d{depth}"] = {"type": "object", "properties": {"x": {"type": "string"}}}
    return {"type": "object", "properties": {"a": {"$ref": "#/definitions/d0"}}, "definitions": definitions}


def test_definitions_that_use_definitions_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = json_of(all_of(40))
    with pytest.raises(NoColumns, match="steps"):
        spark_types(schema)
    monkeypatch.setattr(json_schema, "STEPS_MAX", 10_000)
    with pytest.raises(SerdeError, match="more than 10016 steps"):
        serde_for(schema).from_json({"a": {}})
    assert serde_for(schema).from_json({}) == b"{}"


def fits(coder: Any) -> bool:
    try:
        coder.from_json({"a": {}})
    except SerdeError:
        return False
    return True


def test_values_of_a_request_share_their_steps_and_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    coder = serde_for(json_of(all_of(6)))
    monkeypatch.setattr(json_schema, "STEPS_MAX", 2_000)
    with json_schema.Checking(lambda: False):
        fitting = next(count for count in range(100) if not fits(coder))
    assert 0 < fitting < 20
    for _ in range(100):
        coder.from_json({"a": {}})  # of their own each
    asked: list[int] = []

    def leaves_at_the_third() -> bool:
        asked.append(1)
        return len(asked) == 3

    monkeypatch.setattr(json_schema, "STEPS_MAX", 1_000_000)
    endless = serde_for(json_of(all_of(27)))
    with json_schema.Checking(leaves_at_the_third), pytest.raises(json_schema.Abandoned):
        endless.from_json({"a": {}})
    assert len(asked) == 3


def test_many_plain_values_of_a_request_have_steps_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large body of small records is no attack; a costly schema after them is bounded."""
    monkeypatch.setattr(json_schema, "STEPS_MAX", 500)
    number = {"type": "integer", "minimum": 0, "maximum": 9}
    plain = serde_for(json_of({"type": "object", "properties": {"a": number}, "required": ["a"]}))
    numbers = serde_for(json_of({"type": "array", "items": number}))
    with json_schema.Checking(lambda: False):
        for _ in range(2_000):
            plain.from_json({"a": 1})
        numbers.from_json([1] * 5_000)
        with pytest.raises(SerdeError, match="steps"):
            serde_for(json_of(all_of(27))).from_json({"a": {}})


def test_a_request_of_very_small_values_ends_with_its_client() -> None:
    plain = serde_for(json_of({"type": "integer"}))
    with json_schema.Checking(lambda: True), pytest.raises(json_schema.Abandoned):
        any(plain.from_json(1) == b"" for _ in range(10_000))


NAMES = {f"p{index}": index for index in range(400)}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": [f"x{index}" for index in range(4_000)]}, "x3999"),
        ({"properties": {f"x{index}": {} for index in range(4_000)}}, {}),
        ({"required": [name for name in NAMES for _ in range(10)]}, NAMES),
        ({"patternProperties": {f"^q{index}": {} for index in range(20)}}, NAMES),
        (
            {"additionalProperties": {}, "patternProperties": {f"^q{index}": {} for index in range(20)}},
            NAMES,
        ),
        ({"uniqueItems": True}, [*range(4_000)]),
    ],
    ids=["enum", "properties", "required", "patternProperties", "additionalProperties", "uniqueItems"],
)
def test_a_keyword_counts_by_what_it_looks_at(
    schema: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one step of a long list would take as long as hundreds of others."""
    coder = serde_for(json_of(schema))
    assert coder.from_json(value)
    monkeypatch.setattr(json_schema, "_STEPS_PER_BYTE", 0)
    monkeypatch.setattr(json_schema, "STEPS_MAX", 50)
    with pytest.raises(SerdeError, match="more than 50 steps"):
        coder.from_json(value)


def test_the_values_of_a_request_are_checked_for_so_many_seconds() -> None:
    """Steps are bounded by bytes, but a step may be a slow one: that of a long `anyOf`, say."""
    now = 50.0
    coder = serde_for(json_of({"items": {"anyOf": [{"minimum": 1}] * 6 + [{}]}}))
    zeros = [0] * 100

    def clock() -> float:
        return now

    with json_schema.Checking(lambda: False, clock):
        assert coder.from_json(zeros)
        now += json_schema.CHECKING_SECONDS_MAX
        for value in (zeros, [0], [0]):  # what has ended stays ended
            with pytest.raises(SerdeError, match="takes more than 30 seconds: send them in several"):
                coder.from_json(value)
    with json_schema.Checking(lambda: False, clock):
        assert coder.from_json(zeros)
    assert coder.from_json(zeros), "who checks values of its own may take its time"


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-07/schema#", "http://json-schema.org/schema"]
)
def test_an_inner_schema_that_names_a_draft_has_safe_patterns_too(draft: str) -> None:
    inner = {"$schema": draft, "type": "string", "pattern": "^(a+)+$"}
    coder = serde_for(json_of({"type": "object", "properties": {"a": inner}}))
    assert coder.from_json({"a": "aa"})
    with pytest.raises(SerdeError, match="does not match"):
        coder.from_json({"a": "a" * 60 + "!"})


@pytest.mark.parametrize(
    ("schema", "value"),
    [({"$schema": 5}, 1), ({"properties": {"a": {"$schema": {}}}}, {"a": 1}), ({"multipleOf": 0.1}, 10**400)],
)
def test_what_jsonschema_stumbles_over_is_told(schema: Any, value: Any) -> None:
    with pytest.raises(SerdeError, match="cannot be checked"):
        serde_for(json_of(schema)).from_json(value)


def test_alternatives_in_alternatives_are_read_in_one_go() -> None:
    inner: Any = {"enum": [{"number": number} for number in range(5_000)]}
    for _ in range(100):
        inner = {"allOf": [inner]}
    assert not json_of(inner).differences(json_of(inner))


def test_avro_values_of_no_bytes_and_defaults_end() -> None:
    with pytest.raises(SerdeError, match="without bytes"):
        serde_for(avro(record("R", z=doubled(12)))).to_json(b"")
    with pytest.raises(SerdeError, match="'z' is missing"):
        serde_for(avro(with_defaults(4))).from_json({"a": 1})
    text = {"name": "s", "type": "string", "default": "x" * 500_000}
    items = {"type": "array", "items": {"type": "record", "name": "X", "fields": [text]}}
    with pytest.raises(SerdeError, match="with its defaults"):
        serde_for(avro(items)).from_json([{}] * 10_000)


@pytest.mark.parametrize(
    "text",
    [
        'edition = "99999999999999999999"; message A {}',
        'syntax = "proto3"; message A { reserved 1 to 2147483647; }',
        'syntax = "proto2"; message A { extensions 4 to 2147483647; }',
        'syntax = "proto2"; message A { optional int32 a = 1 [default = 0xZZ]; }',
    ],
)
def test_numbers_that_no_descriptor_has_room_for(text: str) -> None:
    schema = parse(SchemaText(SchemaType.PROTOBUF, text))
    with pytest.raises(NoColumns):
        spark_types(schema)
    with pytest.raises(SerdeError):
        serde_for(schema)
    with pytest.raises(InvalidSchema):
        schema.formatted("serialized")
