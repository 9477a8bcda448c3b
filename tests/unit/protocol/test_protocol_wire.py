"""Varints and tag sections at their edges."""

import pytest

from moldau.common.protocol.wire import MalformedMessage, read_uvarint, skip_tags, uvarint


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\0"),
        (1, b"\1"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**32 - 1, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_uvarint_both_ways(value, data):
    assert uvarint(value) == data
    assert read_uvarint(b"x" + data, 1) == (value, 1 + len(data))


def test_an_endless_varint_is_malformed():
    with pytest.raises(MalformedMessage):
        read_uvarint(b"\xff" * 100, 0)
    with pytest.raises(IndexError):
        read_uvarint(b"\xff\xff", 0)


def test_skipping_tags_believes_no_count_and_no_size():
    assert skip_tags(b"\x00\x01a\x01\x00", 0, 2, 5) == 5
    with pytest.raises(MalformedMessage):
        skip_tags(b"\x00\x00", 0, 2**31, 2)
    with pytest.raises(MalformedMessage):
        skip_tags(b"\x00\x09", 0, 1, 2)
