"""Records of the schemas' topic: our bytes are Confluent's, and any bytes are read or refused."""

import hashlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.schemas.schema import Reference
from moldau.services.registry.state.body import Version, make_body
from moldau.services.registry.state.document import parse_metadata, parse_rule_set
from moldau.services.registry.state.records import (
    Key,
    KeyType,
    UnknownRecord,
    encode_json,
    encode_key,
    parse_key,
    parse_references,
    parse_value,
    schema_value,
)

KEYS = {
    Key(KeyType.SCHEMA, "orders-value", 3): (
        b'{"keytype":"SCHEMA","subject":"orders-value","version":3,"magic":1}'
    ),
    Key(KeyType.CONFIG): b'{"keytype":"CONFIG","subject":null,"magic":0}',
    Key(KeyType.CONFIG, ":.prod:"): b'{"keytype":"CONFIG","subject":":.prod:","magic":0}',
    Key(KeyType.MODE, "a"): b'{"keytype":"MODE","subject":"a","magic":0}',
    Key(KeyType.NOOP): b'{"keytype":"NOOP","magic":0}',
    Key(KeyType.NOOP, "", 3): b'{"keytype":"NOOP","magic":0}   ',
    Key(KeyType.DELETE_SUBJECT, "é"): '{"keytype":"DELETE_SUBJECT","subject":"é","magic":0}'.encode(),
    Key(KeyType.CLEAR_SUBJECT, "a"): b'{"keytype":"CLEAR_SUBJECT","subject":"a","magic":0}',
    Key(KeyType.CONTEXT, ".prod"): b'{"keytype":"CONTEXT","tenant":"default","context":".prod","magic":0}',
}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_has_confluents_bytes(key: Key) -> None:
    assert encode_key(key) == KEYS[key]
    assert parse_key(KEYS[key]) == key


def test_a_key_is_read_in_any_order_of_fields() -> None:
    key = b'{ "magic": 0, "subject": "s", "extra": [1], "keytype": "CONFIG" }'
    assert parse_key(key) == Key(KeyType.CONFIG, "s")
    assert parse_key(b'{"keytype":"CONFIG","magic":0}') == Key(KeyType.CONFIG)


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"orders",
        b"[]",
        b"\xff\xfe",
        b"{}",
        b'{"keytype":"EXPORTER","name":"x"}',
        b'{"keytype":"SCHEMA","subject":"s","magic":1}',
        b'{"keytype":"SCHEMA","subject":"s","version":"1"}',
        b'{"keytype":"SCHEMA","subject":"s","version":true}',
        b'{"keytype":"SCHEMA","subject":7,"version":1}',
        b'{"keytype":["SCHEMA"],"subject":"s","version":1}',
        b'{"keytype":"CONTEXT","tenant":"other","context":".c"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_key_is_refused(key: bytes) -> None:
    with pytest.raises(UnknownRecord):
        parse_key(key)


def test_a_plain_avro_schemas_value_has_confluents_bytes() -> None:
    version = Version("s", 1, 7, make_body("AVRO", '"string"'), deleted=False, timestamp_ms=0)
    assert (
        encode_json(schema_value(version))
        == b'{"subject":"s","version":1,"id":7,"schema":"\\"string\\"","deleted":false}'
    )


def test_a_full_schemas_value_has_confluents_order_of_fields() -> None:
    body = make_body(
        "PROTOBUF",
        'syntax = "proto3";',
        (Reference("other.proto", "other", 2),),
        parse_metadata(
            {"sensitive": ["b", "a"], "properties": {"z": 1, "a": True}, "tags": {"**.x": ["PII"]}}
        ),
        parse_rule_set({"domainRules": [{"type": "CEL", "name": "r", "kind": "CONDITION", "mode": "WRITE"}]}),
    )
    value = encode_json(schema_value(Version("s", 2, 7, body, deleted=True, timestamp_ms=0))).decode()
    assert value == (
        '{"subject":"s","version":2,"id":7,"schemaType":"PROTOBUF",'
        '"references":[{"name":"other.proto","subject":"other","version":2}],'
        '"metadata":{"tags":{"**.x":["PII"]},"properties":{"a":"true","z":"1"},"sensitive":["a","b"]},'
        '"ruleSet":{"domainRules":[{"name":"r","kind":"CONDITION","mode":"WRITE","type":"CEL",'
        '"disabled":false}]},"schema":"syntax = \\"proto3\\";","deleted":true}'
    )


@pytest.mark.parametrize("raw", [{}, [1], [{"name": "n"}], [{"name": "n", "subject": "s", "version": None}]])
def test_what_is_no_reference_is_refused(raw: object) -> None:
    with pytest.raises(UnknownRecord):
        parse_references(raw)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for parse in (parse_key, parse_value):
        try:
            parse(data)
        except UnknownRecord:
            continue


def test_a_guid_is_the_md5_of_what_has_meaning() -> None:
    text = '"string"'
    assert make_body("AVRO", text).guid == str(uuid.UUID(bytes=hashlib.md5(text.encode()).digest()))
    referring = make_body("AVRO", text, (Reference("n", "s", 1),))
    assert referring.guid_bytes == hashlib.md5(text.encode() + b"ns\x00\x00\x00\x01").digest()
    metadata = parse_metadata({"properties": {"b": "2", "a": "1"}})
    assert (
        make_body("AVRO", text, (), metadata).guid_bytes == hashlib.md5(text.encode() + b"\x01a1b2").digest()
    )


def test_empty_metadata_is_not_no_metadata() -> None:
    assert make_body("AVRO", "x", (), {}).guid != make_body("AVRO", "x", ()).guid
