"""Bodies as JSON: integers are exact, or refused. Damaged compression is the client's error."""

import gzip
import json

import pytest

from moldau.services.http import bodies
from moldau.services.http.bodies import _Unpacker, parse_json, parse_shallow_json
from moldau.services.http.problems import HttpProblem

INTEGERS = (
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    -(2**63) - 1,
    10**18,
    12345678901234567890123456789012345678901234567890,
)


@pytest.mark.parametrize("integer", INTEGERS)
def test_integers_are_exact(integer: int):
    text = json.dumps({"a": [integer, "x"]}).encode()
    for parsed in (parse_json(text, 10), parse_shallow_json(text)):
        assert parsed == {"a": [integer, "x"]}
        assert type(parsed["a"][0]) is int


@pytest.mark.parametrize("before", [0, 1, 18, 19, 20, 37, 38, 39])
@pytest.mark.parametrize("integer", [2**63 - 1, 2**63, 10**25, -(10**18)])
def test_integers_are_exact_where_the_text_is_searched_in_pieces(
    monkeypatch: pytest.MonkeyPatch, before: int, integer: int
):
    monkeypatch.setattr(bodies, "_SEARCHED_PIECE_BYTES", 20)
    text = json.dumps(["x" * before, integer, "y" * before, 9]).encode()
    assert parse_json(text, 10) == ["x" * before, integer, "y" * before, 9]


def test_digits_elsewhere_change_nothing():
    text = b'{"99999999999999999999": "99999999999999999999", "a": 0.99999999999999999999, "b": 1e-5}'
    assert parse_json(text, 10) == json.loads(text)


def test_an_integer_that_would_take_long_is_refused():
    with pytest.raises(HttpProblem) as refused:
        parse_json(b"[" + b"9" * 5000 + b"]", 10)
    assert refused.value.status == 400


def test_a_deep_body_with_a_long_integer_is_refused_for_its_depth():
    text = b"[" * 900 + b"9" * 30 + b"]" * 900
    with pytest.raises(HttpProblem, match="500 levels"):
        parse_json(text, 500)


def test_damage_is_told_wherever_it_shows():
    """Each byte of what is compressed is changed in turn: pieces come out, or a 400, and nothing else."""
    packed = gzip.compress(b"0" * 200_000)
    for place in range(len(packed)):
        damaged = bytearray(packed)
        damaged[place] ^= 0xFF
        unpack = _Unpacker(gzip=True)
        statuses = []
        try:
            for start in range(0, len(damaged), 7):
                for piece in unpack.feed(bytes(damaged[start : start + 7])):
                    assert len(piece) <= 64 * 1024
            unpack.finish()
        except HttpProblem as refused:
            statuses.append(refused.status)
        assert statuses in ([], [400])
