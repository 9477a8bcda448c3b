"""Large bodies that are parsed in pieces have the records that they have when parsed at once."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v2 import record_pieces
from moldau.services.rest.v2.record_pieces import RecordPieces

VALUES = st.recursive(
    st.none() | st.integers(-(2**80), 2**80) | st.sampled_from(["},{", '"},{"', "\\", "]}", "é", ""]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["value", "a", "}, {", "records "]), inner, max_size=3)
    ),
    max_leaves=8,
)


def read(body: bytes) -> tuple[list[object], object]:
    pieces = RecordPieces(body, 100)
    records = [each for piece in pieces for each in piece]
    return records, pieces.fields


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_pieces, "PIECE_BYTES", 8)


@given(
    st.lists(st.dictionaries(st.sampled_from(["key", "value"]), VALUES, max_size=2), min_size=1, max_size=20),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]),
    st.booleans(),
)
def test_pieces_are_the_whole(records: list[object], separators: tuple[str, str], fields_first: bool):
    fields = {"value_schema": '},{"x":[]'}
    body = {**fields, "records": records} if fields_first else {"records": records, **fields}
    text = json.dumps(body, separators=separators).encode()
    found, rest = read(text)
    if len(text) > 16:
        assert found == records
        assert rest == {**fields, "records": []}


def test_a_list_of_other_things_is_read_as_it_is():
    body = orjson.dumps({"records": [1, [2], "},{", None, {"a": {}}, {"b": [{}, {}]}, True]})
    assert read(body)[0] == orjson.loads(body)["records"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":{"records":[{"x":1},{"x":2},{"x":3}]},"b":2}',
        b'{"records":[{"records":[{"x":1},{"x":2},{"x":3}]}]}',
        b'{"records":[{"x":1},{"x":2},{"x":3}],"records":[{"x":4}]}',
        b'[{"x":1},{"x":2},{"x":3},{"x":4},{"x":5}]',
        b'"records:[{},{},{},{},{}] and much more"',
    ],
)
def test_other_bodies_are_left_whole(body: bytes):
    assert read(body) == ([], orjson.loads(body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"records":[{"x":1},{"x":2},{"x":3},{"x":4}',
        b'{"records":[{"x":1},{"x":2},{"x":3} {"x":4}]}',
        b'{"records":[{"x":1},{"x":2},,{"x":3},{"x":4}]}',
        b'{"records":[{"x":1},{"x":2},{"x":3},{"x":4}]}}',
        b'{"records":[{"x":1},{"x":2},{"x":3},{"x":4}}',
    ],
)
def test_what_is_no_json_is_refused(body: bytes):
    with pytest.raises(HttpProblem) as refused:
        read(body)
    assert refused.value.status == 400
