"""Messages: every line is one or is refused with a sentence; a message survives its bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.kit.agent.message import BadMessage, Message, decode, headers_of, parse, source_of

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    st.one_of(st.none(), st.binary(max_size=50)),
    st.one_of(st.none(), st.binary(max_size=50)),
    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3),
    INT64,
    st.text(max_size=20),
    INT64,
)
def test_a_message_survives_its_bytes(value, key, headers, timestamp_ms, source, sequence):
    coded = json.dumps(headers).encode() if headers else b""
    message = Message("t", value, key, coded, timestamp_ms, source, sequence)
    data = message.encode()
    assert decode("t", data) == message
    assert source_of(data) == (source, sequence)
    assert headers_of(message) == [(name, text.encode()) for name, text in headers]


@given(st.binary(max_size=200))
def test_any_line_is_a_message_or_is_refused(line):
    try:
        message = parse(line, 5)
    except BadMessage:
        return
    assert decode(message.topic, message.encode()) == message


@given(
    st.dictionaries(
        st.sampled_from(
            ["topic", "value", "key", "value_base64", "headers", "timestamp_ms", "source", "sequence"]
        ),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=3,
        ),
    )
)
def test_any_json_is_a_message_or_is_refused(said):
    try:
        message = parse(json.dumps(said).encode(), 5)
    except BadMessage:
        return
    assert decode(message.topic, message.encode()) == message
    assert all(isinstance(value, bytes) for _, value in headers_of(message))


def test_lines():
    assert parse(b"orders one two", 5) == Message("orders", b"one two", timestamp_ms=5)
    assert parse(b"orders:a:b one", 5) == Message("orders", b"one", b"a:b", timestamp_ms=5)
    assert parse(b'{"topic": "t", "value": {"a": 1}, "key": "k"}', 5).value == b'{"a": 1}'
    assert parse(b'{"topic": "t", "value": null, "key_base64": "AP8="}', 5).key == b"\x00\xff"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "TOPIC VALUE"),
        (b"one", "TOPIC VALUE"),
        (b"a/b one", "the topic's name"),
        (b".. one", "the topic's name"),
        (b'{"value": 1}', '"topic" is missing'),
        (b'{"topic": "t"}', '"value" is missing'),
        (b'{"topic": "t", "value": 1, "keys": 1}', "unknown field 'keys'"),
        (b'{"topic": "t", "value": 1, "source": "s"}', "go together"),
        (b'{"topic": "t", "value_base64": "?"}', "no base64"),
        (b'{"topic": "t", "value": "\\ud800"}', "surrogate"),
        (b'{"topic": "t", "value": 1, "timestamp_ms": -1}', "milliseconds"),
        (b'{"topic": "t", "value": 1, "headers": {"a": 1}}', "object of strings"),
        (b"{" * 100_000, "no JSON object"),
    ],
)
def test_refusals(line, says):
    with pytest.raises(BadMessage, match=says):
        parse(line, 5)
