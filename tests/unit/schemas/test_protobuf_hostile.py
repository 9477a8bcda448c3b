"""Protobuf files that nobody writes: each ends at once, as a file or as InvalidSchema.

A test that hangs here has found an algorithm that is not linear.
"""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.schemas.languages import parse
from moldau.schemas.protobuf.comparing import DIFFERENCES_MAX
from moldau.schemas.schema import InvalidSchema, Reference, SchemaText, SchemaType
from moldau.schemas.serde import SerdeError, serde_for

HEAD = 'syntax = "proto3";'
OPTION_OF_ONES_OWN = (
    'import "google/protobuf/descriptor.proto"; message M { repeated int32 x = 1; } '
    "extend google.protobuf.FileOptions { M o = 1000; }"
)

MANY_OPTIONS = "".join(f"option (o).x = {n};" for n in range(1_000))


def protobuf(text: str, references: dict[str, str] | None = None, version: int = 1):
    names = references or {}
    used = tuple(Reference(name, name, version) for name in names)
    return parse(SchemaText(SchemaType.PROTOBUF, text, used), names)


REFUSED = {
    "ten megabytes": ("a" * 10_000_000, "characters"),
    "a comment without end": (HEAD + "/*" * 100_000, "expected"),
    "a string without end": (HEAD + 'option java_package = "' + "\\n" * 100_000, "does not end"),
    "messages in messages": (HEAD + "message A {" * 2_000 + "}" * 2_000, "deeper than 32"),
    "options in options": (
        HEAD + "option (a) = " + "{a: " * 2_000 + "1" + "}" * 2_000 + ";",
        "deeper than 64",
    ),
    "lists in lists": (HEAD + "option (a) = " + "[" * 2_000 + "]" * 2_000 + ";", "deeper than 64"),
    "an option's name in many parts": (HEAD + "option (a)" + ".(b)" * 20_000 + " = 1;", "deeper than 64"),
    "a package in many parts": (HEAD + "package " + "a." * 100_000 + "a; message A { X x = 1; }", "package"),
    "numbers beyond 32 bits": (HEAD + "message A { reserved 1 to 99999999999; }", "whole number"),
    "a zero byte": (HEAD + "message \0 {}", "expected"),
    "nothing but base64": (base64.b64encode(b"\xf7" * 1000).decode(), "expected"),
    "a descriptor with a oneof that is not there": (
        base64.b64encode(b'"\t\n\x01A\x12\x04\n\x01aH\x05').decode(),
        "expected",
    ),
    "a descriptor whose package is no name": (
        base64.b64encode(b'\x12\x10a b; message E {}"\x03\n\x01Ab\x06proto3').decode(),
        "expected",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(InvalidSchema, match=reason):
        protobuf(text)


TAKEN = {
    "comments": HEAD + "//\n" * 50_000,
    "fields": HEAD + "message A {" + "".join(f"int32 a{n} = {n};" for n in range(1, 2_000)) + "}",
    "messages": HEAD + "".join(f"message A{n} {{ A{n} a = 1; }}" for n in range(1_000)),
    "strings side by side": HEAD + "option java_package = " + '"" ' * 50_000 + ";",
    "options to be put together": HEAD + OPTION_OF_ONES_OWN + MANY_OPTIONS,
}


@pytest.mark.parametrize("name", TAKEN)
def test_taken_in_linear_time(name: str) -> None:
    schema = protobuf(TAKEN[name])
    assert protobuf(schema.canonical).normalized() == schema.normalized()


def chain(length: int, last: str) -> str:
    """Messages of which each uses the next one twice: 2 to the power of `length` paths."""
    links = "".join(f"message A{n} {{ A{n + 1} a = 1; A{n + 1} b = 2; }}" for n in range(length))
    return f"{HEAD}{links}message A{length} {{ {last} a = 1; }}"


def test_a_comparison_does_not_follow_every_path() -> None:
    text = HEAD + 'import "c"; message Z { A0 z = 1; }'
    reader = protobuf(text, {"c": chain(40, "int32")}, version=1)
    writer = protobuf(text, {"c": chain(40, "string")}, version=2)
    found = reader.differences(writer)
    assert "FIELD_SCALAR_KIND_CHANGED" in {each.kind for each in found}
    assert len(found) <= 2 * DIFFERENCES_MAX
    assert protobuf(chain(40, "int32")).differences(protobuf(chain(40, "string")))


def test_a_comparison_that_leads_too_deep_is_refused() -> None:
    text = HEAD + 'import "c"; message Z { A0 z = 1; }'
    reader = protobuf(text, {"c": chain(2_000, "int32")}, version=1)
    with pytest.raises(InvalidSchema, match="too deeply"):
        reader.differences(protobuf(text, {"c": chain(2_000, "string")}, version=2))


def test_references_in_a_circle_are_no_schema_for_values() -> None:
    circle = {
        "a": HEAD + 'import "b"; message X { Y y = 1; }',
        "b": HEAD + 'import "a"; message Y { X x = 1; }',
    }
    with pytest.raises(SerdeError, match="no values can be coded"):
        serde_for(protobuf(HEAD + 'import "a"; message Q { X x = 1; }', circle))


def test_an_import_is_never_read_from_a_disk() -> None:
    schema = protobuf(HEAD + 'import "/etc/passwd"; import "../../x.proto"; message A { int32 a = 1; }')
    assert serde_for(schema).from_json({"a": 1}) == b"\x08\x01"


@given(st.text(alphabet=" \n{}[]()<>;=,.\"'\\/*-0aE_:", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for begin in ("", HEAD, HEAD + "message A {", HEAD + "option (a) = {"):
        try:
            schema = protobuf(begin + text)
        except InvalidSchema:
            continue
        assert protobuf(schema.canonical).canonical == schema.canonical


@given(st.binary(max_size=80))
def test_any_descriptor_is_parsed_or_refused(packed: bytes) -> None:
    try:
        schema = protobuf(base64.b64encode(packed).decode())
    except InvalidSchema:
        return
    assert isinstance(schema.canonical, str)
