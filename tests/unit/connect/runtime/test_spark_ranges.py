"""Which records a micro-batch has, and where its runs end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect import ConnectError, TopicPartition
from moldau.services.connect.runtime.sink_notes import Notes
from moldau.services.connect.runtime.spark_ranges import Range, ends_of, next_end, ranges_of, run_ends

_T0, _T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_micro_batchs_ends_are_read_from_sparks_log() -> None:
    assert ends_of('v1\n{"batchWatermarkMs":0}\n{"t":{"0":7,"1":9}}') == {_T0: 7, _T1: 9}
    for text in ("", "v1\n{}", "v2\n{}\n{}", "v1\n{}\n[]", 'v1\n{}\n{"t":{"x":1}}'):
        with pytest.raises(ConnectError, match="log of offsets"):
            ends_of(text)


def test_what_is_new_has_a_range() -> None:
    assert ranges_of({_T0: 3, _T1: 9}, {_T0: 7, _T1: 9, TopicPartition("u", 0): 5}) == {_T0: Range(3, 7)}


@given(st.integers(0, 2**63 - 6_000_000), st.integers(1, 5_000_000))
def test_runs_cover_a_range_and_fit_into_the_metadata_of_an_offset(start: int, length: int) -> None:
    ends = run_ends(Range(start, start + length))
    assert ends == sorted(set(ends))
    assert ends[0] > start
    assert ends[-1] == start + length
    assert max(b - a for a, b in zip([start, *ends], ends, strict=False)) <= 50_000
    Notes(start, ends).text()  # ValueError: it is too long
    assert next_end(ends, start) == ends[0]
    assert next_end(ends, start + length) is None
