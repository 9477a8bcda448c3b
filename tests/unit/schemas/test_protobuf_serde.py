"""Values of Protobuf messages as JSON and as bytes."""

import pytest

from moldau.schemas.languages import parse
from moldau.schemas.protobuf.known_imports import KNOWN_IMPORTS, known_file
from moldau.schemas.schema import Reference, SchemaText, SchemaType
from moldau.schemas.serde import SerdeError, serde_for
from moldau.schemas.serde.protobuf import message_indexes

FILE = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "item.proto";
message Order {
  string order_id = 1;
  int64 cents = 2;
  repeated stock.Item items = 3;
  map<string, Note> notes = 4;
  google.protobuf.Timestamp at = 5;
  oneof payer { string card = 6; string account = 7; }
  optional int32 floor = 8;
  State state = 9;
  Order parent = 10;
  message Note { string text = 1; bytes seal = 2; }
}
message Cancelled { string order_id = 1; }
enum State { OPEN = 0; PAID = 1; }
"""
ITEM = 'syntax = "proto3"; package stock; message Item { string name = 1; uint32 count = 2; }'
ORDER = {
    "orderId": "a1",
    "cents": "900719925474099267",
    "items": [{"name": "nail", "count": 3}],
    "notes": {"x": {"text": "é", "seal": "AAH/"}},
    "at": "2026-11-23T03:37:00.500Z",
    "card": "visa",
    "state": "PAID",
}


@pytest.fixture(scope="module")
def schema():
    text = SchemaText(SchemaType.PROTOBUF, FILE, (Reference("item.proto", "item", 1),))
    return parse(text, {"item.proto": ITEM})


def test_a_value_of_every_kind_comes_back(schema):
    serde = serde_for(schema)
    assert serde.message_indexes == (0,)
    assert serde.to_json(serde.from_json(ORDER)) == ORDER


def test_fields_without_presence_are_shown_with_their_default(schema):
    assert serde_for(schema).to_json(b"") == {
        "orderId": "",
        "cents": "0",
        "items": [],
        "notes": {},
        "state": "OPEN",
    }


def test_indexes_choose_the_message(schema):
    assert message_indexes(schema, "shop.Order.Note") == (0, 0)
    assert message_indexes(schema, "Cancelled") == (1,)
    note, cancelled = serde_for(schema, (0, 0)), serde_for(schema, (1,))
    assert note.to_json(note.from_json({"text": "a"})) == {"text": "a", "seal": ""}
    assert cancelled.from_json({"order_id": "b2"}) == b"\n\x02b2"
    with pytest.raises(SerdeError, match=r"no message with the indexes \[0, 1\]"):
        serde_for(schema, (0, 1))
    with pytest.raises(SerdeError, match=r"no message Order\.Seal"):
        message_indexes(schema, "Order.Seal")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"orderId": 1}, "orderId"),
        ({"colour": "red"}, "colour"),
        ({"cents": "many"}, "cents"),
        ({"state": "LOST"}, "LOST"),
        ({"items": {}}, "items"),
        (["a"], "an object is expected"),
        (None, "an object is expected"),
        ("a", "an object is expected"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(schema, value, reason):
    with pytest.raises(SerdeError, match=reason):
        serde_for(schema).from_json(value)


@pytest.mark.parametrize("payload", [b"\xff", b"\n\xff", b"\x0b" * 50_000, b"R\x80\x80\x80\x80\x08"])
def test_bytes_of_something_else_are_refused(schema, payload):
    with pytest.raises(SerdeError, match=r"no shop\.Order"):
        serde_for(schema).to_json(payload)


def test_depth_is_bounded_both_ways(schema):
    value: dict = {}
    packed = b""
    for _ in range(2_000):
        value = {"parent": value}
        length = len(packed)
        size = bytearray()
        while length > 0x7F:
            size.append(length & 0x7F | 0x80)
            length >>= 7
        packed = b"R" + bytes((*size, length)) + packed
    serde = serde_for(schema)
    with pytest.raises(SerdeError):
        serde.from_json(value)
    with pytest.raises(SerdeError):
        serde.to_json(packed)


def test_a_schema_that_no_library_can_use_says_so():
    text = 'syntax = "proto3"; message A { string a = 1; int32 b = 1; }'
    with pytest.raises(SerdeError, match="no values can be coded"):
        serde_for(parse(SchemaText(SchemaType.PROTOBUF, text)))


@pytest.mark.parametrize("location", sorted(KNOWN_IMPORTS))
def test_known_files_need_no_reference(location):
    file = known_file(location)
    used = next((each.name for each in file.messages), None) or file.types[0].name
    text = f'syntax = "proto3"; import "{location}"; message A {{ {file.package}.{used} a = 1; }}'
    serde = serde_for(parse(SchemaText(SchemaType.PROTOBUF, text)))
    assert serde.to_json(b"") in ({}, {"a": None}) or isinstance(serde.to_json(b"")["a"], str)
