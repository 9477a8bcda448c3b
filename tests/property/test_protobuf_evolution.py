"""A Protobuf message that evolves by allowed steps always passes, by a forbidden one never.

What an earlier version wrote is really read with the later one: after allowed steps every field that both
have says the same; after a forbidden one something is lost or cannot be read.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moldau.schemas.languages import parse
from moldau.schemas.protobuf.parsed import ProtobufSchema
from moldau.schemas.schema import SchemaText, SchemaType
from moldau.schemas.serde import SerdeError, serde_for

KINDS = {
    "general": ("int32", "int64", "uint32", "uint64"),
    "signed": ("sint32", "sint64"),
    "text": ("string", "bytes"),
    "fixed32": ("fixed32", "sfixed32"),
    "fixed64": ("fixed64", "sfixed64"),
    "float": ("float",),
    "double": ("double",),
    "message": ("Part",),
}
KIND_OF = {each: kind for kind, types in KINDS.items() for each in types}


@dataclass(frozen=True)
class Field:
    type: str
    name: str
    one_of: bool = False


Fields = dict[int, Field]


def schema_of(fields: Fields) -> ProtobufSchema:
    plain = [f"{each.type} {each.name} = {tag};" for tag, each in fields.items() if not each.one_of]
    chosen = [f"{each.type} {each.name} = {tag};" for tag, each in fields.items() if each.one_of]
    one_of = [f"oneof choice {{ {' '.join(chosen)} }}"] if chosen else []
    text = f'syntax = "proto3"; message M {{ {" ".join(plain + one_of)} }} message Part {{ string p = 1; }}'
    found = parse(SchemaText(SchemaType.PROTOBUF, text), {})
    assert isinstance(found, ProtobufSchema)
    return found


def value_of(field: Field, seed: int) -> Any:
    """A value that every type of the field's kind can hold."""
    kind = KIND_OF[field.type]
    if kind == "text":
        return base64.b64encode(b"%d" % seed).decode() if field.type == "bytes" else str(seed)
    if kind == "message":
        return {"p": str(seed)}
    return float(seed) if kind in ("float", "double") else seed


def plain_value(field: Field, shown: Any) -> Any:
    """What a value says, whichever type of its kind it has."""
    kind = KIND_OF[field.type]
    if kind == "text":
        return base64.b64decode(shown) if field.type == "bytes" else shown.encode()
    return shown if kind == "message" else float(shown)


@st.composite
def messages(draw: st.DrawFn) -> Fields:
    tags = draw(st.lists(st.integers(1, 40), min_size=2, max_size=6, unique=True))
    return {tag: Field(draw(st.sampled_from(sorted(KIND_OF))), f"f{tag}") for tag in tags}


def step(fields: Fields, draw: st.DrawFn, number: int) -> Fields:
    """One allowed step."""
    tag = draw(st.sampled_from(sorted(fields)))
    change = draw(st.sampled_from(("add", "remove", "rename", "type", "order", "choice")))
    later = dict(fields)
    if change == "add":
        later[50 + number] = Field(draw(st.sampled_from(sorted(KIND_OF))), f"new{number}")
    elif change == "remove" and len(fields) > 1 and not fields[tag].one_of:
        del later[tag]
    elif change == "rename":
        later[tag] = replace(fields[tag], name=f"other{number}")
    elif change == "type":
        same = KINDS[KIND_OF[fields[tag].type]]
        later[tag] = replace(fields[tag], type=draw(st.sampled_from(same)))
    elif change == "order":
        later = {each: fields[each] for each in draw(st.permutations(sorted(fields)))}
    elif change == "choice" and not any(each.one_of for each in fields.values()):
        later[tag] = replace(fields[tag], one_of=True)
    return later


def written(fields: Fields) -> bytes:
    value = {each.name: value_of(each, tag) for tag, each in fields.items()}
    return serde_for(schema_of(fields)).from_json(value)


@given(messages(), st.data())
def test_allowed_steps_pass_and_keep_what_was_written(fields: Fields, data: st.DataObject) -> None:
    first = fields
    for number in range(data.draw(st.integers(1, 5))):
        earlier, fields = fields, step(fields, data.draw, number)
        assert schema_of(fields).differences(schema_of(earlier)) == []
    shown = serde_for(schema_of(fields)).to_json(written(first))
    for tag in first.keys() & fields.keys():
        before, after = first[tag], fields[tag]
        assert plain_value(after, shown[after.name]) == plain_value(before, value_of(before, tag))


@given(messages(), st.data())
def test_a_forbidden_step_never_passes(fields: Fields, data: st.DataObject) -> None:
    later = dict(fields)
    tag = data.draw(st.sampled_from(sorted(fields)))
    if data.draw(st.booleans()):
        kinds = sorted(KINDS.keys() - {KIND_OF[fields[tag].type]})
        later[tag] = replace(fields[tag], type=KINDS[data.draw(st.sampled_from(kinds))][0])
    else:
        for each in fields:
            later[each] = replace(fields[each], one_of=True)
    assert schema_of(later).differences(schema_of(fields))
    expected = {each: plain_value(fields[each], value_of(fields[each], each)) for each in fields}
    try:
        shown = serde_for(schema_of(later)).to_json(written(fields))
        read = {each: plain_value(later[each], shown[later[each].name]) for each in later}
    except (SerdeError, KeyError, ValueError):
        return
    # A string may look like a message, and a zigzag number like another number: then it says something else.
    assert read != expected
