"""Avro schemas against what Confluent's Java client said of them (avro_answers.json, recorded).

tests/clients/test_avro_answers_java.py asks it again. Where we differ on purpose, the file has "ours" too:

* a type in no namespace within another's keeps its namespace when it is normalised;
* defaults that do not fit, or fit the second branch of a union, stay when it is normalised;
* a type that is defined within a reference is not defined again.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.schemas.languages import parse, parse_new
from moldau.schemas.schema import InvalidSchema, ParsedSchema, SchemaText, SchemaType

ANSWERS = json.loads(Path(__file__).with_name("avro_answers.json").read_text(encoding="utf-8"))


def _avro(text: str, dependencies: dict[str, str] | None = None, new: bool = False) -> ParsedSchema:
    return (parse_new if new else parse)(SchemaText(SchemaType.AVRO, text), dependencies or {})


@pytest.mark.parametrize("asked", ANSWERS["texts"], ids=lambda asked: asked["schema"][:60])
def test_texts(asked: dict[str, Any]) -> None:
    java, ours = asked["java"], asked.get("ours", {})
    expected = ours if "refused" in java else {**java, **ours}
    if java == {"refused": True} and not ours:
        with pytest.raises(InvalidSchema):
            _avro(asked["schema"], asked.get("references"), asked.get("new", False))
        return
    parsed = _avro(asked["schema"], asked.get("references"), asked.get("new", False))
    assert {
        "canonical": parsed.canonical,
        "resolved": parsed.formatted("resolved"),
        "normalized": parsed.normalized(),
        "name": parsed.name,
    } == expected


@pytest.mark.parametrize("asked", ANSWERS["texts"], ids=lambda asked: asked["schema"][:60])
def test_canonical_and_normalized_texts_stay_what_they_are(asked: dict[str, Any]) -> None:
    references = asked.get("references", {})
    try:
        parsed = _avro(asked["schema"], references)
    except InvalidSchema:
        return
    assert _avro(parsed.canonical, references).canonical == parsed.canonical
    assert _avro(parsed.formatted("resolved")).canonical == parsed.formatted("resolved")
    normalized = parsed.normalized()
    assert _avro(normalized, references).normalized() == normalized
    assert _avro(normalized, references).canonical == normalized
    assert _avro(normalized, references).differences(parsed) == []
    assert parsed.differences(_avro(normalized, references)) == []


@pytest.mark.parametrize("asked", ANSWERS["pairs"], ids=lambda asked: asked["name"])
def test_pairs(asked: dict[str, Any]) -> None:
    found = _avro(asked["reader"]).differences(_avro(asked["writer"]))
    if asked["java"] == [["UNEXPECTED_ERROR"]]:  # an exception there
        assert [each.kind for each in found] == ["UNEXPECTED_ERROR"]
    else:
        assert [[each.kind, each.path, each.additional] for each in found] == asked["java"]


def test_every_kind_of_difference_is_among_the_pairs() -> None:
    kinds = {each[0] for asked in ANSWERS["pairs"] for each in asked["java"]}
    assert kinds == {
        "FIXED_SIZE_MISMATCH",
        "MISSING_ENUM_SYMBOLS",
        "MISSING_UNION_BRANCH",
        "NAME_MISMATCH",
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "TYPE_MISMATCH",
        "UNEXPECTED_ERROR",
    }


@pytest.mark.parametrize(
    ("default", "type_"),
    [
        ("2147483648", '"int"'),
        ("9223372036854775808", '"long"'),
        ("1.0", '"long"'),
        ("true", '"int"'),
        ('"x"', '"boolean"'),
        ("0", '"null"'),
        ("1", '"string"'),
        ('["a"]', '{"type":"array","items":"int"}'),
        ('{"a":"b"}', '{"type":"map","values":"int"}'),
        ("{}", '{"type":"record","name":"I","fields":[{"name":"x","type":"int"}]}'),
        ("1", '["null","string"]'),
    ],
)
def test_defaults_are_checked_for_new_schemas_only(default: str, type_: str) -> None:
    text = f'{{"type":"record","name":"R","fields":[{{"name":"f","type":{type_},"default":{default}}}]}}'
    _avro(text)
    with pytest.raises(InvalidSchema, match="Invalid default for field f of R"):
        _avro(text, new=True)


@pytest.mark.parametrize(
    ("default", "type_"),
    [
        ('"text"', '["null","string"]'),
        ("null", '["null","string"]'),
        ('{"x":1}', '{"type":"record","name":"I","fields":[{"name":"x","type":"int"}]}'),
        ("{}", '{"type":"record","name":"I","fields":[{"name":"x","type":"int","default":1}]}'),
        ("1", '"double"'),
        ('"\\u00ff"', '"bytes"'),
    ],
)
def test_defaults_that_fit(default: str, type_: str) -> None:
    _avro(
        f'{{"type":"record","name":"R","fields":[{{"name":"f","type":{type_},"default":{default}}}]}}',
        new=True,
    )


def test_a_broken_reference_is_named() -> None:
    with pytest.raises(InvalidSchema, match="in the reference x: No type"):
        _avro('"int"', {"x": "{}"})
