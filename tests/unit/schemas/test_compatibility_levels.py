"""Levels: who reads whom, which versions are looked at, and the lines in which it is told."""

import json

import pytest

from moldau.schemas.compatibility import Level, check, messages
from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType


def _record(**fields: object) -> ParsedSchema:
    """A record of ints; a field whose value is not None has it as its default."""
    members = [
        {"name": name, "type": "int", **({} if default is None else {"default": default})}
        for name, default in fields.items()
    ]
    return parse(SchemaText(SchemaType.AVRO, json.dumps({"type": "record", "name": "R", "fields": members})))


A = _record(a=None)
AB = _record(a=None, b=None)
AB_DEFAULT = _record(a=None, b=1)

_ALL = tuple(Level)
_NEW_READS = (Level.BACKWARD, Level.BACKWARD_TRANSITIVE)
_OLD_READS = (Level.FORWARD, Level.FORWARD_TRANSITIVE)


@pytest.mark.parametrize(
    ("new", "old", "refused"),
    [
        (A, A, ()),
        (AB_DEFAULT, A, ()),  # added with a default: read both ways
        (AB, A, (*_NEW_READS, Level.FULL, Level.FULL_TRANSITIVE)),  # added without
        (A, AB, (*_OLD_READS, Level.FULL, Level.FULL_TRANSITIVE)),  # removed without
        (A, AB_DEFAULT, ()),
    ],
    ids=["same", "added with default", "added", "removed", "removed with default"],
)
def test_levels_ask_for_their_direction(new: ParsedSchema, old: ParsedSchema, refused: tuple[Level]) -> None:
    assert [level for level in _ALL if check(level, new, [old])] == [each for each in _ALL if each in refused]


def test_only_transitive_levels_look_beyond_the_latest() -> None:
    previous = [A, AB_DEFAULT]
    for level in (Level.NONE, Level.BACKWARD, Level.FORWARD, Level.FULL, Level.FORWARD_TRANSITIVE):
        assert check(level, AB, previous) == []
    for level in (Level.BACKWARD_TRANSITIVE, Level.FULL_TRANSITIVE):
        (found,) = check(level, AB, previous)
        assert (found.previous, found.reader, found.difference.kind) == (
            0,
            "new",
            "READER_FIELD_MISSING_DEFAULT_VALUE",
        )


def test_the_latest_version_that_does_not_fit_is_told() -> None:
    assert [each.previous for each in check(Level.BACKWARD_TRANSITIVE, AB, [A, A, AB])] == [1]


def test_no_earlier_version_means_no_reason() -> None:
    assert all(check(level, AB, []) == [] for level in _ALL)


def test_messages_are_confluents() -> None:
    found = check(Level.BACKWARD, AB, [A])
    assert messages(Level.BACKWARD, found, [A], [3]) == [
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path '/fields/1' in "
        "the new schema has no default value and is missing in the old schema', additionalInfo:'b'}",
        "{oldSchemaVersion: 3}",
        f"{{oldSchema: '{A.canonical}'}}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]
    assert messages(Level.BACKWARD, [], [A], [3]) == []


def test_forward_says_that_the_old_schema_reads() -> None:
    first, *_ = messages(Level.FORWARD, check(Level.FORWARD, A, [AB]), [AB])
    assert "in the old schema has no default value and is missing in the new schema" in first


def test_full_tells_forward_first_and_names_the_old_schema_only_after_backward() -> None:
    string = parse(
        SchemaText(SchemaType.AVRO, '{"type":"record","name":"R","fields":[{"name":"a","type":"boolean"}]}')
    )
    lines = messages(Level.FULL, check(Level.FULL, string, [A]), [A], [1])
    assert "in the old schema does not match with the new schema" in lines[0]
    assert "in the new schema does not match with the old schema" in lines[1]
    assert lines[2] == "{oldSchemaVersion: 1}"
    only_forward = messages(Level.FULL, check(Level.FULL, A, [AB]), [AB], [1])
    assert [each[:14] for each in only_forward] == ["{errorType:'RE", "{validateField"]


def test_a_long_old_schema_is_cut() -> None:
    long = _record(**{f"field_{index}": 0 for index in range(1000)}, last=None)
    text = next(
        each for each in messages(Level.FORWARD, check(Level.FORWARD, A, [long]), [long]) if "oldS" in each
    )
    assert text.startswith("{oldSchema: <truncated> '")
    assert len(text) < 11_000
