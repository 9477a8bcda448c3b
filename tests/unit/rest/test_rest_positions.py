"""Where reading begins, and timestamps as v3 writes and reads them."""

from __future__ import annotations

import base64
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3.packed_positions import packed, unpacked
from moldau.services.rest.v3.positions import Start, parse_positions, parse_start, positions_text
from moldau.services.rest.v3.produced_record import timestamp_of, timestamp_text

POSITIONS = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), min_size=1, max_size=5)


@given(POSITIONS)
def test_positions_are_read_as_they_were_written(positions: dict[int, int]) -> None:
    assert parse_positions(positions_text(positions)) == positions


@given(st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=300))
def test_packed_positions_are_read_as_they_were_written(positions: dict[int, int]) -> None:
    assert unpacked(packed(positions)) == positions


def test_positions_of_very_many_partitions_go_into_a_requests_head() -> None:
    positions = {each: 1_000_000 + each * 7919 % 100_003 for each in range(4_000)}
    text = positions_text(positions)
    assert len(text) < 14_000
    assert re.fullmatch(r"~[\w-]+", text)
    assert parse_start(text, sorted(positions)) == Start(positions, -2)


@pytest.mark.parametrize("offset", [0, 5 * 10**11, 2**63 - 1])
def test_equal_positions_of_very_many_partitions_are_short_and_read_again(offset: int) -> None:
    """The URL of a next page has them: a topic that is empty, or whose partitions all have as much."""
    positions = dict.fromkeys(range(25_000), offset)
    text = positions_text(positions)
    assert len(text) < 2_000
    assert parse_positions(text) == positions


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x02\x00\x01\x05",  # two partitions, one offset
        b"\x01\x00\x05\x05",
        b"\x01\x00\x85",  # a number without an end
        b"\x01\x00" + b"\xff" * 20 + b"\x01",
        b"\x01\xff\xff\xff\xff\x0f\x00",  # no partition is so large
        b"\xff\xff\xff\xff\x0f\x00",
        b"\x00" * 100_000_000,  # deflated to 97 KB
        b"\xc0\x84\x3d" + b"\x01" * 1_000_000 + b"\x00" * 1_000_000,  # 2 KB: a million partitions
    ],
)
def test_packed_positions_that_are_none(raw: bytes) -> None:
    deflated = zlib.compress(raw, 6, -zlib.MAX_WBITS)
    text = "~" + base64.urlsafe_b64encode(deflated).decode().rstrip("=")
    if raw:
        with pytest.raises(HttpProblem) as refused:
            parse_positions(text)
        assert refused.value.status == 400
    for other in ("~", "~é", "~AAAA", text[:-3]):
        with pytest.raises(HttpProblem):
            parse_positions(other)


@given(st.binary(max_size=40))
def test_any_packed_text_is_a_start_or_the_clients_error(data: bytes) -> None:
    deflated = zlib.compress(data, 6, -zlib.MAX_WBITS)
    assert time_or_status("~" + base64.urlsafe_b64encode(deflated).decode()) >= -2


@given(st.text(max_size=20))
def test_any_text_is_a_start_or_the_clients_error(text: str) -> None:
    assert time_or_status(text) >= -2


def time_or_status(text: str) -> int:
    """The time of a start, or the status of the refusal."""
    try:
        return parse_start(text, [0, 1]).time
    except HttpProblem as problem:
        return problem.status


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", Start({}, -2)),
        ("EARLIEST", Start({}, -2)),
        ("end", Start({}, -1)),
        ("0:17,1:4", Start({0: 17, 1: 4}, -2)),
        ("1970-01-01T00:00:01.5Z", Start({}, 1500)),
        ("1970-01-01T02:00:01+02:00", Start({}, 1000)),
    ],
)
def test_a_start_is_an_end_a_time_or_offsets(text: str, start: Start) -> None:
    assert parse_start(text, [0, 1]) == start


def test_a_single_offset_needs_a_single_partition() -> None:
    assert parse_start("17", [3]) == Start({3: 17}, -2)
    with pytest.raises(HttpProblem, match="partition"):
        parse_start("17", [0, 1])


@given(st.integers(0, 253_402_300_799_999))
def test_a_timestamp_is_read_as_it_was_written(timestamp_ms: int) -> None:
    assert timestamp_of(timestamp_text(timestamp_ms), "timestamp") == timestamp_ms


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_612_552_482_000, "2021-02-05T19:14:42Z"),
        (1_612_552_482_007, "2021-02-05T19:14:42.007Z"),
        (2**62, str(2**62)),
    ],
)
def test_timestamps_look_as_java_prints_them(timestamp_ms: int, text: str) -> None:
    assert timestamp_text(timestamp_ms) == text
