"""A stream of bytes cut into JSON objects: the same however it is cut, and bounded."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3.json_stream import JsonSplitter

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), max_size=5)
CUTS = st.lists(st.integers(0, 400), max_size=8)


def split(data: bytes, cuts: list[int], **limits: int) -> list[bytes]:
    splitter = JsonSplitter(limits.get("bytes_max", 10_000), limits.get("depth_max", 100))
    places = sorted({0, len(data), *(each for each in cuts if each < len(data))})
    found = [each for start, end in pairwise(places) for each in splitter.feed(data[start:end])]
    splitter.end()
    return found


@given(OBJECTS, CUTS, st.booleans(), st.sampled_from([b"", b"\n", b" \r\n\t"]))
def test_objects_come_out_as_they_went_in(
    objects: list[dict[str, object]], cuts: list[int], ascii_only: bool, between: bytes
) -> None:
    texts = [json.dumps(each, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") for each in objects]
    assert split(between.join(texts) + between, cuts) == texts


@given(OBJECTS, CUTS)
def test_an_array_of_objects_is_its_elements(objects: list[dict[str, object]], cuts: list[int]) -> None:
    assert [json.loads(each) for each in split(json.dumps(objects).encode(), cuts)] == objects


@given(st.binary(max_size=60), CUTS)
def test_any_bytes_end_in_objects_or_in_the_clients_error(data: bytes, cuts: list[int]) -> None:
    whole = outcome(data, [])
    assert outcome(data, cuts) == whole
    assert isinstance(whole, list) or whole in (400, 413)


def outcome(data: bytes, cuts: list[int]) -> list[bytes] | int:
    """The objects, or the status of the refusal."""
    try:
        return split(data, cuts)
    except HttpProblem as problem:
        return problem.status


@pytest.mark.parametrize("data", [b"1", b'"a"', b"nul", b"{} x", b"}", b"[1]", b'{"a":1'])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(HttpProblem) as caught:
        split(data, [])
    assert caught.value.status == 400


def test_nesting_is_bounded_and_a_brace_in_a_text_is_none() -> None:
    assert split(b'{"a":"[[[[{{{{"}', [], depth_max=1)
    with pytest.raises(HttpProblem, match="nested deeper"):
        split(b'{"a":[[[', [], depth_max=3)


def test_an_object_that_never_ends_is_refused_at_the_limit() -> None:
    splitter = JsonSplitter(1000, 10)
    for _ in range(9):
        splitter.feed(b'{"a":"' + b"x" * 100)
    with pytest.raises(HttpProblem) as caught:
        splitter.feed(b"x" * 100)
    assert caught.value.status == 413


def test_what_was_given_out_is_not_kept() -> None:
    splitter = JsonSplitter(10_000, 10)
    for _ in range(100):
        assert len(splitter.feed(b'{"a":1}' * 50)) == 50
        assert splitter.unfinished_bytes == 0
