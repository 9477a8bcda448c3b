"""Protobuf files printed, normalised, refused and compared as Confluent's own Java does it."""

from __future__ import annotations

import pytest
from protobuf_cases import NEWER_DIFFERENCES, NEWER_PRINTS, PRINTS, File, pairs, recorded

from moldau.schemas.languages import parse
from moldau.schemas.protobuf.comparing import COMPATIBLE, all_differences
from moldau.schemas.protobuf.parsed import ProtobufSchema
from moldau.schemas.schema import InvalidSchema, Reference, SchemaText, SchemaType

ANSWERS = recorded()


def parsed(file: File) -> ProtobufSchema:
    references = tuple(Reference(name, name, version) for name, (_, version) in file.references.items())
    texts = {name: text for name, (text, _) in file.references.items()}
    found = parse(SchemaText(SchemaType.PROTOBUF, file.text, references), texts)
    assert isinstance(found, ProtobufSchema)
    return found


@pytest.mark.parametrize("name", PRINTS)
def test_files_are_printed_and_refused_as_by_confluent(name: str) -> None:
    answer = ANSWERS[f"print {name}"]
    if "refused" in answer:
        with pytest.raises(InvalidSchema):
            parsed(PRINTS[name])
        return
    schema = parsed(PRINTS[name])
    expected = answer["normalized"]
    for old, new in NEWER_PRINTS.get(name, {}).items():
        assert old in expected
        expected = expected.replace(old, new)
    assert schema.canonical == answer["canonical"]
    assert schema.normalized() == expected


@pytest.mark.parametrize("name", [name for name, each in ANSWERS.items() if "canonical" in each])
def test_what_is_printed_reads_as_the_same(name: str) -> None:
    file = PRINTS[name.removeprefix("print ")]
    schema = parsed(file)
    again = parsed(file._replace(text=schema.canonical))
    assert again.canonical == schema.canonical
    normal = parsed(file._replace(text=schema.normalized()))
    assert normal.normalized() == schema.normalized() == again.normalized()


@pytest.mark.parametrize("name", pairs())
def test_differences_are_those_that_confluent_finds(name: str) -> None:
    reader, writer = (parsed(file) for file in pairs()[name])
    found = sorted((each.kind, each.path) for each in all_differences(reader, writer))
    expected = NEWER_DIFFERENCES.get(name) or [
        tuple(each) for each in ANSWERS[f"compare {name}"]["differences"]
    ]
    assert found == sorted(expected)
    told = [(each.kind, each.path) for each in reader.differences(writer)]
    assert sorted(set(told)) == sorted({each for each in expected if each[0] not in COMPATIBLE})


def p2_fields(fields: str) -> ProtobufSchema:
    text = 'syntax = "proto2"; enum E { X = 0; } message M {} message A { ' + fields + " }"
    return parsed(File(text, {}))


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("optional int32 a = 1;", "repeated int32 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("repeated sint64 a = 1;", "optional sint64 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("repeated double a = 1;", "optional double a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("repeated fixed32 a = 1;", "optional sfixed32 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("optional bool a = 1;", "repeated bool a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("optional E a = 1;", "repeated E a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("required int32 a = 1;", "optional int32 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("optional string a = 1;", "repeated string a = 1;", "FIELD_STRING_OR_BYTES_LABEL_CHANGED"),
        ("optional bytes a = 1;", "repeated string a = 1;", "FIELD_STRING_OR_BYTES_LABEL_CHANGED"),
        ("optional M a = 1;", "repeated M a = 1;", None),
        ("optional int32 a = 1;", "repeated sint32 a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        ("optional int32 a = 1;", "optional int64 a = 1;", None),
    ],
)
def test_labels_are_compared_where_both_are_written(old: str, new: str, kind: str | None) -> None:
    before, after = p2_fields(old), p2_fields(new)
    found = [each.kind for each in all_differences(after, before)]
    assert found == ([] if kind is None else [kind])
    assert bool(after.differences(before)) == (kind is not None and kind not in COMPATIBLE)


def test_descriptors_say_the_same_as_their_text() -> None:
    for name, file in PRINTS.items():
        if "refused" in ANSWERS[f"print {name}"] or name in (
            "options in all forms",
            "an empty message in each place",
        ):
            continue
        schema = parsed(file)
        again = parsed(file._replace(text=schema.formatted("serialized")))
        assert not all_differences(again, schema), name


def test_map_entries_survive_a_descriptor() -> None:
    # Others have dropped them.
    text = (
        'syntax = "proto3"; package a; message M { map<string, V> tags_of = 1; message V { map<int32, '
        "bytes> x = 1; } }"
    )
    schema = parsed(File(text))
    again = parsed(File(schema.formatted("serialized")))
    assert "message TagsOfEntry {" in again.canonical
    assert again.normalized() == schema.normalized()
    assert "map<string, .a.M.V> tags_of = 1;" in again.normalized()


def test_serialized_works_with_references() -> None:
    # Others have failed at this.
    schema = parsed(PRINTS["imports and options"])
    again = parsed(PRINTS["imports and options"]._replace(text=schema.formatted("serialized")))
    assert again.normalized() == schema.normalized()


def test_extensions_can_be_left_out() -> None:
    text = (
        'syntax = "proto2"; message A { option (own) = 1; option deprecated = true; extensions 10 to 20; '
        "optional int32 a = 1 [(own) = 2, deprecated = true]; } extend A { optional int32 b = 10; }"
    )
    assert parsed(File(text)).formatted("ignore_extensions") == (
        'syntax = "proto2";\n\nmessage A {\n  option deprecated = true;\n\n'
        "  optional int32 a = 1 [deprecated = true];\n}\n"
    )
    schema = parsed(File(text))
    assert schema.formatted("") == schema.formatted("no such form") == schema.canonical


def test_editions_are_read_and_printed() -> None:
    text = (
        'edition = "2023"; package e; option features.field_presence = IMPLICIT; message A { int32 a = 1; '
        "reserved b; }"
    )
    schema = parsed(File(text))
    assert schema.canonical.startswith(
        'edition = "2023";\npackage e;\n\noption features.field_presence = IMPLICIT;'
    )
    again = parsed(File(schema.formatted("serialized")))
    assert again.normalized() == schema.normalized()


def test_types_must_be_defined() -> None:
    for text in (
        "message A { B b = 1; }",
        "message A { oneof o { p.B b = 1; } }",
        "service S { rpc R (A) returns (A); }",
    ):
        with pytest.raises(InvalidSchema, match="is not defined"):
            parsed(File(f'syntax = "proto3"; {text}'))


def test_names_for_the_record_strategies() -> None:
    assert parsed(File("package a; enum E { X = 0; } message M {}")).name == "a.M"
    assert parsed(File("enum E { X = 0; }")).name == "E"
    assert parsed(File("")).name is None
