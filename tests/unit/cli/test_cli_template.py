"""The `-f` language: what prints and what reads are two halves of one thing."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.tools.commands.records.number_formats import FIXED, HEX_DIGITS, parse_fixed_number, render_number
from moldau.tools.commands.records.record_reader import ByteStream, InputRecord, read_records
from moldau.tools.commands.records.render import compile_renderer, render_json
from moldau.tools.commands.records.template import Field, bracketed, parse_template
from moldau.tools.shared.errors import CommandError, UsageError


class FakeMessage:
    """A consumed record with confluent-kafka's methods."""

    def __init__(self, **fields: Any) -> None:
        self._fields = {
            "topic": "orders",
            "partition": 3,
            "offset": 42,
            "key": b"k",
            "value": b"v",
            "headers": [("a", b"1"), ("b", None)],
            "timestamp": (1, 1_700_000_000_123),
            "leader_epoch": 7,
        } | fields

    def __getattr__(self, name: str) -> Any:
        return lambda: self._fields[name]


def show(template: str, **fields: Any) -> bytes:
    return compile_renderer(template)(FakeMessage(**fields), 1)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (r"%k %v\n", b"k v\n"),
        ("%t-%p@%o", b"orders-3@42"),
        ("%K %V %T %H %e %i", b"1 1 6 2 7 1"),
        ("%d", b"1700000000123"),
        ("%d{strftime[%Y-%m-%d]}", b"2023-11-14"),
        ("%d{strftime## [%H] ##}", b" [22] "),
        ("%d{iso}", b"2023-11-14T22:13:20.123000Z"),
        ("%h{%k:%v;}", b"a:1;b:;"),
        ("%h{%K{big16}%k}", b"\0\x01a\0\x01b"),
        ("%v{hex}/%v{base64}/%v{base64raw}", b"76/dg==/dg"),
        ("%K{big32}%k", b"\0\0\0\x01k"),
        ("%o{hex8}", b"2a"),
        ("%a{timestamp-type}", b"0"),
        (r"100%% %{x%} \x41\t\\", b"100% {x} A\t\\"),
    ],
)
def test_a_template_prints(template: str, expected: bytes) -> None:
    assert show(template) == expected


def test_null_key_and_value_print_as_nothing() -> None:
    assert show("[%k|%v|%V]", key=None, value=None) == b"[||0]"


def test_json_modifier_compacts_and_leaves_what_is_not_json() -> None:
    assert show("%v{json}", value=b'{ "a": [1, 2] }') == b'{"a":[1,2]}'
    assert show("%v{json}", value=b"not json") == b"not json"


def test_unpack_shows_binary_data() -> None:
    assert show("%v{unpack[>Is$]}", value=b"\0\0\0\x07rest") == b"7rest"
    assert show("%v{unpack[<h]}", value=b"\x01\x00") == b"1"
    assert b"short" in show("%v{unpack[q]}", value=b"\0")


@pytest.mark.parametrize(
    "wrong",
    [
        "%z",
        "%",
        "%v{",
        r"\q",
        "%v{unknown}",
        "%o{unknown}",
        "%h",
        "%h{%t}",
        "%a{compression}",
        "%d{go[2006]}",
    ],
)
def test_a_wrong_template_says_so(wrong: str) -> None:
    with pytest.raises(UsageError):
        compile_renderer(wrong)


def test_json_keeps_binary_values() -> None:
    line = render_json(FakeMessage(value=b"\xff", key=None), 1)
    assert b'"value": {"base64": "/w=="}' in line
    assert b'"key": null' in line


def test_brackets_protect_braces() -> None:
    assert parse_template("%d{strftime[{%F}]}|") == (Field("d", "strftime[{%F}]"), b"|")
    assert bracketed("strftime[x]", "strftime") == "x"
    assert bracketed("strftime###x###", "strftime") == "x"
    assert bracketed("hex", "strftime") is None


@given(st.integers(0, 2**64 - 1), st.sampled_from([*FIXED, *HEX_DIGITS]))
def test_fixed_numbers_come_back_cut_to_their_width(number: int, form: str) -> None:
    bits = HEX_DIGITS[form] * 4 if form in HEX_DIGITS else FIXED[form][0] * 8
    assert parse_fixed_number(render_number(number, form), form) == number % (1 << bits)


def read(data: bytes, template: str) -> list[InputRecord]:
    return list(read_records(ByteStream(io.BytesIO(data)), template))


def test_lines_are_values_and_the_last_needs_no_newline() -> None:
    assert [each.value for each in read(b"a\nb\n\nc", r"%v\n")] == [b"a", b"b", b"", b"c"]
    assert read(b"", r"%v\n") == []


def test_delimiters_cut_key_and_value() -> None:
    first, second = read(b"k1 v one\nk2 v two\n", r"%k %v\n")
    assert (first.key, first.value) == (b"k1", b"v one")
    assert (second.key, second.value) == (b"k2", b"v two")


def test_sizes_cut_binary_records() -> None:
    (record,) = read(b"\0\0\0\x02k\n\0\0\0\x01v", "%K{big32}%k%V{big32}%v")
    assert (record.key, record.value) == (b"k\n", b"v")
    assert [each.value for each in read(b"abcdef", "%V{3}%v")] == [b"abc", b"def"]
    assert [each.value for each in read(b"2 ab 3 cde ", "%V %v ")] == [b"ab", b"cde"]


def test_headers_topic_partition_and_time() -> None:
    (record,) = read(b"t 4 17 2 a=1;b=2;v\n", r"%t %p %d %H %h{%k=%v;}%v\n")
    assert record.topic == "t"
    assert record.partition == 4
    assert record.timestamp_ms == 17
    assert record.headers == [("a", b"1"), ("b", b"2")]
    assert record.value == b"v"


def test_decoders() -> None:
    (record,) = read(b"6b dg== \n", r"%k{hex} %v{base64} \n")
    assert (record.key, record.value) == (b"k", b"v")
    (record,) = read(b'{"a": 1}\n', r"%v{json}\n")
    assert record.value == b'{"a":1}'


def test_input_that_does_not_fit_names_the_record() -> None:
    with pytest.raises(CommandError, match="line 2"):
        read(b"k v\nno-separator", r"%k %v\n")
    with pytest.raises(CommandError, match="record 1"):
        read(b"zz\n", r"%v{hex}\n")
    with pytest.raises(CommandError, match="record 1"):
        read(b"\0\0\0\x09abc", "%V{big32}%v")


@pytest.mark.parametrize("wrong", ["", r"\n", "%o %v\\n", "%k%v\\n"])
def test_a_format_that_cannot_be_read_says_so(wrong: str) -> None:
    with pytest.raises((UsageError, CommandError)):
        read(b"anything\n", wrong)


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=300)), max_size=20))
def test_what_consume_prints_produce_reads(pairs: list[tuple[bytes, bytes]]) -> None:
    template = "%K{big32}%V{little32}%k%v"
    renderer = compile_renderer(template)
    printed = b"".join(renderer(FakeMessage(key=key, value=value), 1) for key, value in pairs)
    assert [(each.key, each.value) for each in read(printed, template)] == pairs


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.binary(max_size=200))
def test_records_do_not_depend_on_how_the_bytes_come(sizes: list[int], data: bytes) -> None:
    class Trickle(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            sizes.append(sizes.pop(0))
            return super().read(sizes[0])

    whole = [each.value for each in read(data, r"%v\n")]
    assert [each.value for each in read_records(ByteStream(Trickle(data)), r"%v\n")] == whole
