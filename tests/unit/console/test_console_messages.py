"""Records for people: decoding, masking, where reading begins, exports, what is copied."""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.admin.problem import KafkaProblem
from moldau.services.console.changes.change import Refused
from moldau.services.console.changes.produce import coded, parse_headers
from moldau.services.console.facts.snapshot import Ends
from moldau.services.console.messages.browsing import Look, Row, browse, is_wanted, row_of
from moldau.services.console.messages.copy_as import Place, snippets
from moldau.services.console.messages.decoding import FORMATS, Shown, hex_dump, shown
from moldau.services.console.messages.exporting import _cells, _csv_line, _json_line, exported
from moldau.services.console.messages.expressions import compile_filter
from moldau.services.console.messages.masking import TopicMasks, parse_mask
from moldau.services.console.messages.positions import (
    Span,
    cursor_of,
    cursor_text,
    first,
    from_moments,
    from_offset,
    newest,
    oldest,
)
from moldau.services.http.context import CLIENT_IS_GONE
from moldau.services.kafka.reading import ReadRecord


def record(value: bytes | None, key: bytes | None = b"k", headers: Any = ()) -> ReadRecord:
    return ReadRecord(2, 7, 1_760_000_000_000, False, headers, key, value)


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "null", ""),
        (b'{"a": [1, 2]}', "json", '{"a": [1, 2]}'),
        (b"hello", "string", "hello"),
        (b"", "string", ""),
        ("žluťoučký\n".encode(), "string", "žluťoučký\n"),
        (b"\x00\x01\xff", "hex", "00 01 ff"),
        (b"{not json", "string", "{not json"),
        (b"a\x1bb", "hex", "61 1b 62"),
    ],
)
def test_guessing(data: bytes | None, form: str, text: str) -> None:
    found = shown(data, "auto", is_key=False)
    assert (found.format, found.text) == (form, text)


@pytest.mark.parametrize("depth", [101, 260, 1000, 1023, 5000])
def test_json_that_is_nested_deeply_is_text_and_spoils_no_page(depth: int) -> None:
    """Printers and masks go down by recursion; a thousand levels of indentation make megabytes of a line."""
    for data in (b"[" * depth + b"1" + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        assert shown(data, "auto", is_key=False).format == "string"
        assert shown(data, "json", is_key=False).note
        row = row_of("orders", record(data), Look(masks=masks("orders:value.card")))
        assert row.value.format == "masked"
    within = b'{"a":' * 98 + b"[[], {}]" + b"}" * 98
    assert shown(within, "auto", is_key=False).format == "json"


def test_a_value_by_schema_that_is_nested_deeply_spoils_no_page() -> None:
    value: Any = 1
    for _ in range(1_200):
        value = {"next": value}
    found = shown(b"\x00\x01", "auto", is_key=False, by_schema=lambda *_: (value, "AVRO list"))
    assert (found.format, found.note) == ("hex", "it is nested deeper than 100 levels")


def test_chosen_formats() -> None:
    assert shown(b"\x00\x00\x00\x07", "int", is_key=False).value == 7
    assert shown(b"\xff" * 8, "long", is_key=False).text == "-1"
    assert shown(b"\x3f\x80\x00\x00", "float", is_key=False).value == 1.0
    assert shown(b"abc", "base64", is_key=False).text == "YWJj"
    wrong = shown(b"abc", "long", is_key=False)
    assert (wrong.format, wrong.text) == ("string", "abc")
    assert "not long" in wrong.note
    assert "no schema registry" in shown(b"abc", "schema", is_key=False).note


def test_a_schema_comes_first_and_its_failure_is_told() -> None:
    def by_schema(data: bytes, is_key: bool, headers: Any) -> tuple[Any, str] | None:
        if data[:1] != b"\0":
            return None
        if data == b"\0bad":
            raise ValueError("schema 9 is not known")
        return {"n": 2**70}, "AVRO 9"

    found = shown(b"\0good", "auto", is_key=False, by_schema=by_schema)
    assert (found.format, found.schema, found.value) == ("schema", "AVRO 9", {"n": 2**70})
    assert json.loads(found.text) == {"n": 2**70}
    failed = shown(b"\0bad", "auto", is_key=False, by_schema=by_schema)
    assert (failed.format, failed.note) == ("hex", "schema 9 is not known")
    assert shown(b"text", "auto", is_key=False, by_schema=by_schema).format == "string"


@given(st.binary(max_size=64), st.sampled_from(FORMATS))
def test_any_bytes_are_shown(data: bytes, form: str) -> None:
    found = shown(data, form, is_key=False)
    assert isinstance(found.text, str)
    found.text.encode()


def test_a_dump_is_bounded() -> None:
    text = hex_dump(bytes(range(256)) * 1000, bytes_max=64)
    assert len(text.splitlines()) == 5
    assert "more bytes" in text


# -- masks


def masks(*texts: str) -> TopicMasks:
    return TopicMasks([parse_mask(each) for each in texts], "orders")


def test_fields_are_masked_before_filters_see_them() -> None:
    look = Look(
        matches=compile_filter('value.user.email contains "@" or headers.token == "s3cret"'),
        masks=masks("orders:value.user.email", "ord*:headers.token", "other:value"),
    )
    data = b'{"user": {"email": "a@b", "name": "x"}, "list": [1]}'
    row = row_of("orders", record(data, headers=[("token", b"s3cret"), ("trace", b"1")]), look)
    assert row.value.value["user"] == {"email": "•••", "name": "x"}
    assert "a@b" not in row.value.text
    assert dict(row.headers) == {"token": "•••", "trace": "1"}
    assert not is_wanted(row, look)


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_gets_around_a_mask(form: str) -> None:
    look = Look(form, form, masks=masks("orders:value.card", "orders:key"))
    for data in (b'{"card": "4711"}', b"4711 as text", b"\x004711"):
        row = row_of("orders", record(data, key=b"4711"), look)
        for part in (row.value, row.key):
            assert "4711" not in part.text
            assert "4711" not in str(part.value)
            assert b"4711".hex() not in part.text.replace(" ", "")


def test_masks_go_into_lists() -> None:
    row = row_of("orders", record(b'[{"card": 1}, {"card": 2}]'), Look(masks=masks("orders:value.card")))
    assert row.value.value == [{"card": "•••"}, {"card": "•••"}]


@pytest.mark.parametrize("text", ["", "orders", "orders:body", "orders:value..a", ":value"])
def test_wrong_masks_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no mask"):
        parse_mask(text)


# -- where reading begins

ENDS = {0: Ends(10, 20), 1: Ends(0, 3), 2: Ends(5, 5)}
lengths = st.dictionaries(st.integers(0, 20), st.integers(0, 1000), max_size=12)


def test_starts() -> None:
    assert oldest(ENDS) == {0: Span(10, 20), 1: Span(0, 3), 2: Span(5, 5)}
    assert from_offset(ENDS, 12) == {0: Span(12, 20), 1: Span(3, 3), 2: Span(5, 5)}
    assert from_offset(ENDS, -2) == {0: Span(18, 20), 1: Span(1, 3), 2: Span(5, 5)}
    assert from_moments(ENDS, {0: 15, 1: -1}) == {0: Span(15, 20), 1: Span(3, 3), 2: Span(5, 5)}


@given(lengths, st.integers(0, 2000))
def test_shares_fill_up_and_stay_small(sizes: dict[int, int], count: int) -> None:
    whole = {index: Span(7, 7 + size) for index, size in sizes.items()}
    for chosen, at_end in ((newest(whole, count), True), (first(whole, count), False)):
        total = sum(each.count for each in chosen.values())
        assert total >= min(count, sum(sizes.values()))
        assert total < count + len(sizes) + 1
        for index, each in chosen.items():
            assert 7 <= each.start <= each.end <= 7 + sizes[index]
            assert each.count == 0 or (each.end == 7 + sizes[index] if at_end else each.start == 7)


@given(st.dictionaries(st.integers(0, 10**6), st.integers(0, 2**62), max_size=30))
def test_a_cursor_comes_back(offsets: dict[int, int]) -> None:
    assert cursor_of(cursor_text(offsets)) == offsets


@given(st.text(max_size=50))
def test_any_text_is_a_cursor(text: str) -> None:
    assert all(index >= 0 and offset >= 0 for index, offset in cursor_of(text).items())


# -- exports and copies


def row(key: str, value: str) -> Row:
    text = Shown("string", value, value)
    return Row("orders", 0, 1, 5, Shown("string", key, key), text, (("h", "=1+1"),), 3)


def test_cells_are_no_formulas() -> None:
    cells = _cells(row("=cmd()", "-12.5"))
    assert cells == ("0", "1", "5", "'=cmd()", "-12.5", "h==1+1")
    assert _csv_line(("a,b", 'c"d', "e\nf")) == b'"a,b","c""d","e\nf"\n'
    assert _cells(row("@x", "+y"))[3:5] == ("'@x", "'+y")


class _Silent:
    """A reader of a partition whose leader goes away after the first record."""

    def __init__(self) -> None:
        self.positions = {2: 0}

    async def open(self, topic: str, positions: Any) -> _Silent:
        return self

    async def next(self, records_max: int, wait_seconds: float) -> list[ReadRecord]:
        found = [record(b"{}")] if not self.positions[2] else []
        self.positions[2] = 1
        return found

    async def close(self) -> None:
        pass


def test_half_an_export_does_not_pass_for_a_whole_one() -> None:
    """It would be a file that looks whole: only a connection that breaks tells."""

    got: list[bytes] = []

    async def run() -> None:
        silent: Any = _Silent()
        async for piece in exported(silent, "orders", {2: Span(0, 9)}, Look(), "jsonl", 10):
            got.append(piece)

    with pytest.raises(KafkaProblem, match="orders-2 was read up to offset 1 only"):
        asyncio.run(run())
    assert len(got) == 1


class _Endless:
    """A reader of a topic without end, as far as anybody reads."""

    def __init__(self, client: list[bool]) -> None:
        self.positions = {2: 0}
        self.read = 0
        self.closed = False
        self._client = client

    async def open(self, topic: str, positions: Any) -> _Endless:
        return self

    async def next(self, records_max: int, wait_seconds: float) -> list[ReadRecord]:
        self.read += 1
        self._client[0] = self.read >= 3  # and then it has gone
        assert self.read < 50, "nobody waits for this"
        self.positions[2] += 1
        return [record(b"{}")]

    async def close(self) -> None:
        self.closed = True


def test_what_nobody_waits_for_is_not_read() -> None:
    """A filter that matches nothing sends nothing, so that sending does not tell that the client has gone."""
    look, spans = Look(matches=lambda values: False), {2: Span(0, 1_000_000)}

    async def run() -> tuple[int, int]:
        client = [False]
        CLIENT_IS_GONE.set(lambda: client[0])
        exporting: Any = _Endless(client)
        assert [each async for each in exported(exporting, "orders", spans, look, "jsonl", 10)] == []
        client[0] = False
        browsing: Any = _Endless(client)
        found = await browse(browsing, "orders", spans, look, 50, newest_first=True)
        assert not found.complete
        assert exporting.closed
        assert browsing.closed
        return exporting.read, browsing.read

    assert asyncio.run(run()) == (3, 3)


@pytest.mark.parametrize("text", ["\n=1+1", " =1+1", "\r\n@SUM(A1)", "-1+1", "=1+1"])
def test_nothing_before_a_formula_hides_it(text: str) -> None:
    assert _cells(row("k", text))[4].startswith("'")


def test_lines_of_json() -> None:
    found = json.loads(_json_line(row("k", "v")))
    assert (found["key"], found["value"], found["headers"]) == ("k", "v", [{"name": "h", "value": "=1+1"}])
    big = Row("t", 0, 1, 5, Shown("null", None, ""), Shown("schema", {"n": 2**70}, f'{{"n":{2**70}}}'), (), 3)
    assert str(2**70) in json.loads(_json_line(big))["value"]


@pytest.mark.parametrize("topic", ["orders", "a b; rm -rf '$HOME'", 'x"\n`id`\\'])
def test_copies_are_quoted(topic: str) -> None:
    found = snippets(Place("h:9092", topic, 3, 42, 5))
    assert set(found) == {"kcat", "moldau", "Python", "Java", "curl", "Spark"}
    words = shlex.split(found["kcat"])
    assert words[:9] == ["kcat", "-C", "-b", "h:9092", "-t", topic, "-p", "3", "-o"]
    assert shlex.split(found["moldau"])[2] == topic
    compile(found["Python"], "copied", "exec")
    compile(found["Spark"], "copied", "exec")
    compile(snippets(Place("h:9092", topic))["Python"], "copied", "exec")
    assert json.dumps(topic) in found["Java"]


# -- producing


def test_what_is_typed_becomes_bytes() -> None:
    assert coded('{"a": 1}', "json", "value") == b'{"a":1}'
    assert coded("00 ff", "hex", "value") == b"\x00\xff"
    assert coded("x", "string", "value") == b"x"
    assert coded("x", "null", "value") is None
    for text, form in (("{", "json"), ("0g", "hex"), ("x", "avro")):
        with pytest.raises(Refused):
            coded(text, form, "value")
    assert parse_headers("a: 1\n\nb:2") == [("a", "1"), ("b", "2")]
    with pytest.raises(Refused):
        parse_headers("no colon")
