"""Texts of JSON Schemas: canonical and normalised form, names, what is refused."""

import pytest

from moldau.schemas.languages import parse
from moldau.schemas.schema import InvalidSchema, ParsedSchema, SchemaText, SchemaType


def _json(text: str, **dependencies: str) -> ParsedSchema:
    return parse(SchemaText(SchemaType.JSON, text), dependencies)


def test_canonical_keeps_order_and_digits_and_drops_spaces() -> None:
    parsed = _json('{ "type" : "number",\n "b": [1.0, 1e10, 1.50E-3, "é\\u001f\\/"], "a": {} }')
    assert parsed.canonical == '{"type":"number","b":[1.0,1E+10,0.00150,"é\\u001F/"],"a":{}}'
    assert parsed.normalized() == '{"a":{},"b":[1.0,1E+10,0.00150,"é\\u001F/"],"type":"number"}'
    assert parsed.formatted("resolved") == parsed.canonical


def test_the_last_of_equal_members_counts_in_the_place_of_the_first() -> None:
    assert _json('{"a":1,"b":2,"a":3}').canonical == '{"a":3,"b":2}'


def test_the_name_is_the_title() -> None:
    assert _json('{"title":"Order"}').name == "Order"
    assert _json("{}").name is None
    assert _json("true").name is None


@pytest.mark.parametrize("text", ["true", "false", "{}", '{"$schema":"https://unknown.example/dialect"}'])
def test_accepted(text: str) -> None:
    assert _json(text).canonical == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("{} {}", "not JSON"),
        pytest.param('{"enum":[' + "0," * 200_000 + "0]}", "more than 200000 values", id="many values"),
        ("[]", "an object, true or false"),
        ('"string"', "an object, true or false"),
        ('{"type":"text"}', "unknown type"),
        ('{"type":["string",3]}', "unknown type"),
        ('{"maxLength":"3"}', "maxLength is a number"),
        ('{"maxLength":-1}', "not negative"),
        ('{"minItems":1.5}', "whole number"),
        ('{"minItems":1e400}', "whole number"),
        ('{"multipleOf":0}', "greater than 0"),
        ('{"required":true}', "array of strings"),
        ('{"required":["a",1]}', "array of strings"),
        ('{"properties":[]}', "properties is an object"),
        ('{"properties":{"a":3}}', "a schema is an object"),
        ('{"allOf":{}}', "allOf is an array"),
        ('{"enum":1}', "enum is an array"),
        ('{"uniqueItems":1}', "true or false"),
        ('{"pattern":1}', "pattern is a string"),
        ('{"title":1}', "title is a string"),
        ('{"exclusiveMaximum":true}', "is a number"),
        ('{"$ref":3}', "$ref is a string"),
        ('{"maximum":NaN}', "not JSON"),
        ('{"a":"\\ud800"}', "surrogate"),
    ],
)
def test_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason.replace("$", r"\$")):
        _json(text)


def test_draft_4_has_exclusive_limits_that_are_marks() -> None:
    text = '{"$schema":"http://json-schema.org/draft-04/schema#","maximum":3,"exclusiveMaximum":true}'
    assert _json(text).canonical == text


@pytest.mark.parametrize(
    "text",
    [
        '{"$ref":"#/definitions/a","definitions":{"a":{"type":"string"}}}',
        '{"$ref":"#/definitions/a~1b%20c","definitions":{"a/b c":{}}}',
        '{"properties":{"next":{"$ref":"#"}}}',
        '{"$id":"http://example.com/root.json","$ref":"root.json#/definitions/a","definitions":{"a":{}}}',
        '{"$ref":"#name","definitions":{"a":{"$id":"#name"}}}',
        '{"$ref":"#name","$defs":{"a":{"$anchor":"name"}}}',
        '{"$ref":"http://example.com/a.json","definitions":{"x":{"$id":"http://example.com/a.json"}}}',
        '{"$id":"http://e.com/x/","properties":{"p":{"$ref":"a.json"}},"definitions":{"x":{"$id":"a.json"}}}',
        '{"$ref":"http://json-schema.org/draft-07/schema#"}',
        '{"$ref":"https://json-schema.org/draft/2020-12/schema"}',
        '{"definitions":{"unused":{"$ref":"http://nowhere.example/x.json"}}}',
        '{"allOf":[{"$ref":"#/allOf/1"},{}]}',
    ],
)
def test_references_within_the_text(text: str) -> None:
    _json(text)


@pytest.mark.parametrize(
    "reference",
    [
        "file:///etc/passwd",
        "http://localhost:1/schema.json",
        "https://example.com/x.json#/a",
        "other.json",
        "../../etc/passwd",
        "//host/share",
        "#/definitions/missing",
        "#nowhere",
        "http://json-schema.org/draft-99/schema#",
        "#/definitions/list/99999999999999999999",
        "http://[broken",
        "jar:file:///x.jar!/y",
    ],
)
def test_references_to_elsewhere_are_refused_and_not_fetched(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    def refuse(*_: object) -> None:
        raise AssertionError("a schema must fetch nothing")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(InvalidSchema):
        _json(f'{{"properties":{{"p":{{"$ref":"{reference}"}}}},"definitions":{{"list":[]}}}}')


@pytest.mark.parametrize(
    "text",
    [
        '{"$ref":"#"}',
        '{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}}}',
    ],
)
def test_a_circle_of_references_is_no_schema(text: str) -> None:
    with pytest.raises(InvalidSchema, match="leads to itself"):
        _json(text)


@pytest.mark.parametrize("name", ["address.json", "./address.json", "http://example.com/address.json"])
@pytest.mark.parametrize("root", [None, "http://example.com/schemas/order.json"])
def test_references_by_name(name: str, root: str | None) -> None:
    identity = "" if root is None else f'"$id":"{root}",'
    text = f'{{{identity}"properties":{{"a":{{"$ref":"{name}"}},"c":{{"$ref":"{name}#/definitions/city"}}}}}}'
    address = '{"properties":{"city":{"$ref":"#/definitions/city"}},"definitions":{"city":{"type":"string"}}}'
    parse(SchemaText(SchemaType.JSON, text), {name: address})


def test_a_broken_reference_is_named() -> None:
    with pytest.raises(InvalidSchema, match=r"in the reference b\.json"):
        parse(SchemaText(SchemaType.JSON, '{"$ref":"b.json"}'), {"b.json": "{"})
