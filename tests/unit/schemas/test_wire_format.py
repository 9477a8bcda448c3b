"""The bytes before a payload, against confluent-kafka's own reader and writer."""

import io

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from moldau.schemas.wire import (
    VALUE_HEADER,
    WireError,
    pack_guid,
    pack_header,
    unpack,
    unpack_record,
)

GUID = "8e4b2a50-6f54-4be9-a2b9-b2f4a3c59a31"
indexes = st.lists(st.integers(0, 300), min_size=1, max_size=6)


@given(st.integers(0, 2**31 - 1), st.none() | indexes)
def test_an_id_is_written_and_read_as_confluents_client_does(schema_id, path):
    theirs = SchemaId("PROTOBUF" if path else "AVRO", schema_id, None, path)
    packed = pack_header(schema_id, path)
    assert packed == theirs.id_to_bytes()
    found = unpack(packed + b"rest", with_indexes=path is not None)
    assert found == (schema_id, tuple(path or ()), len(packed))
    read = SchemaId("PROTOBUF" if path else "AVRO")
    assert read.from_bytes(io.BytesIO(packed + b"rest")).read() == b"rest"
    assert read.id == schema_id


@given(st.none() | indexes)
def test_a_guid_in_a_header_leaves_the_payload_alone(path):
    packed = pack_guid(GUID, path)
    assert packed == SchemaId("PROTOBUF", None, GUID, path).guid_to_bytes()
    headers = [("other", b"x"), (VALUE_HEADER, packed)]
    assert unpack_record(b"payload", headers, False, with_indexes=path is not None) == (
        GUID,
        tuple(path or ()),
        0,
    )


def test_a_keys_header_says_nothing_of_the_value():
    headers = [("__key_schema_id", pack_guid(GUID))]
    assert unpack_record(pack_header(7) + b"payload", headers, False) == (7, (), 5)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\0\0\0", "too short for a schema id"),
        (b"\1" + bytes(10), "too short for a schema GUID"),
        (b'{"a":1}', "byte 123"),
        (b"\0\0\0\0\1", "within the message indexes"),
        (b"\0\0\0\0\1\xff\xff\xff\xff\xff\1", "no number"),
        (b"\0\0\0\0\1\x01", "negative"),
        (b"\0\0\0\0\1\xfe\xff\xff\xff\x0f\0", "announces"),
        (b"\0\0\0\0\1\x04\x02\x03", "negative"),
    ],
)
def test_other_bytes_are_told_apart(data, reason):
    with pytest.raises(WireError, match=reason):
        unpack(data, with_indexes=True)


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_are_read_or_refused(data, with_indexes):
    try:
        found = unpack(data, with_indexes=with_indexes)
    except WireError:
        return
    assert 5 <= found.payload_offset <= len(data)
