"""Keys and values in the embedded formats that need no schema."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.schemas.schema import SchemaType
from moldau.services.rest.embedded import BadData, Format, format_of, json_text, shown, to_bytes, to_json_text

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(st.binary())
def test_bytes_come_back_in_binary(data: bytes):
    assert to_bytes(Format.BINARY, json.loads(to_json_text(Format.BINARY, data))) == data


@given(JSON_VALUES.filter(lambda value: value is not None))
def test_json_comes_back(value: object):
    written = to_bytes(Format.JSON, value)
    assert written is not None
    assert json.loads(to_json_text(Format.JSON, written)) == value
    assert json.loads(json_text(value)) == value


@given(st.text(st.characters(codec="utf-8")))
def test_text_comes_back(text: str):
    assert json.loads(to_json_text(Format.STRING, to_bytes(Format.STRING, text))) == text


@pytest.mark.parametrize("wanted", [Format.BINARY, Format.JSON, Format.STRING])
def test_null_is_no_key_and_no_value(wanted: Format):
    assert to_bytes(wanted, None) is None
    assert to_json_text(wanted, None) == b"null"


def test_base64_is_taken_with_and_without_padding():
    assert to_bytes(Format.BINARY, "aGk=") == b"hi"
    assert to_bytes(Format.BINARY, "aGk") == b"hi"
    assert to_bytes(Format.BINARY, "") == b""


@pytest.mark.parametrize("data", ["a", "aGk=x", "a?k=", "aGk= ", "ü", 5, ["aGk="], {"a": 1}, True])
def test_what_is_not_base64_is_named(data: object):
    with pytest.raises(BadData, match="base64 string"):
        to_bytes(Format.BINARY, data)


def test_a_string_must_be_one():
    with pytest.raises(BadData, match="not a string"):
        to_bytes(Format.STRING, 7)


@pytest.mark.parametrize("data", [b"{", b"\xff", b"", b"1 2", b"NaN"])
def test_a_record_that_is_not_json_is_not_put_into_a_response(data: bytes):
    with pytest.raises(BadData, match="not JSON"):
        to_json_text(Format.JSON, data)


def test_bytes_that_are_not_utf_8_are_replaced_in_text():
    assert json.loads(to_json_text(Format.STRING, b"a\xffb")) == "a�b"


def test_messages_stay_short():
    assert len(shown("x" * 10_000)) <= 80


def test_formats_with_schemas_know_their_language():
    assert {each: each.schema_type for each in Format if each.schema_type} == {
        Format.AVRO: SchemaType.AVRO,
        Format.JSONSCHEMA: SchemaType.JSON,
        Format.PROTOBUF: SchemaType.PROTOBUF,
    }
    assert all(format_of(language).schema_type is language for language in SchemaType)


def test_of_a_large_value_only_the_beginning_is_looked_at():
    class Watched(list[object]):
        seen = 0

        def __iter__(self):
            for _ in range(10**9):
                Watched.seen += 1
                yield {"a": "b"}

    assert shown(Watched([1])).startswith('[{"a": "b"}, {"a": "b"}')
    assert Watched.seen < 100
    assert shown(["x" * 10**6]) == '["' + "x" * 75 + "..."
    assert shown({"a": [1, 2.5, None, True], "b": {}, "c": []}) == (
        '{"a": [1, 2.5, null, true], "b": {}, "c": []}'
    )
