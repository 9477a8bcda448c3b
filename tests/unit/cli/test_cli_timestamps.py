"""Moments, durations and offset ranges as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.tools.shared.errors import UsageError
from moldau.tools.shared.offset_range import Bound, OffsetRange, parse_offset_range, resolve
from moldau.tools.shared.timestamps import parse_duration_ms, parse_moment_ms

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("3ms", 3),
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("7d", 7 * 24 * HOUR_MS),
        ("P1DT2H", 26 * HOUR_MS),
        ("PT1H30M", 5_400_000),
        ("pt0.5s", 500),
        ("P2W", 14 * 24 * HOUR_MS),
    ],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "12", "1x", "h", "1h 30m", "-1h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("1700000000", NOW_MS),
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T22:13:20", NOW_MS),
        ("2023-11-14T22:13:20.250Z", NOW_MS + 250),
        ("2023-11-14T23:13:20+01:00", NOW_MS),
        ("now", NOW_MS),
        ("1h", NOW_MS - HOUR_MS),
        ("-1h", NOW_MS - HOUR_MS),
    ],
)
def test_moments(text: str, expected_ms: int) -> None:
    assert parse_moment_ms(text, NOW_MS) == expected_ms


def test_what_is_no_moment() -> None:
    with pytest.raises(UsageError, match="moment"):
        parse_moment_ms("yesterday", NOW_MS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", OffsetRange(Bound("start"))),
        ("beginning", OffsetRange(Bound("start"))),
        ("end", OffsetRange(Bound("end"))),
        ("100", OffsetRange(Bound("offset", 100))),
        ("100:", OffsetRange(Bound("offset", 100))),
        ("-5", OffsetRange(Bound("before_end", 5))),
        ("+5", OffsetRange(Bound("after_start", 5))),
        ("100:200", OffsetRange(Bound("offset", 100), Bound("offset", 200))),
        (":end", OffsetRange(Bound("start"), Bound("end"))),
        ("@1h", OffsetRange(Bound("moment", NOW_MS - HOUR_MS))),
        ("@2h:1h", OffsetRange(Bound("moment", NOW_MS - 2 * HOUR_MS), Bound("moment", NOW_MS - HOUR_MS))),
        ("@2h:@1h", OffsetRange(Bound("moment", NOW_MS - 2 * HOUR_MS), Bound("moment", NOW_MS - HOUR_MS))),
        ("@2023-11-14T22:13:20", OffsetRange(Bound("moment", NOW_MS))),
        ("@2023-11-14T22:13:20:end", OffsetRange(Bound("moment", NOW_MS), Bound("end"))),
        ("@:1h", OffsetRange(Bound("start"), Bound("moment", NOW_MS - HOUR_MS))),
    ],
)
def test_offset_ranges(text: str, expected: OffsetRange) -> None:
    assert parse_offset_range(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["x", "1:x", "--5", "@x"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(UsageError):
        parse_offset_range(text, NOW_MS)


class Offsets:
    """One partition, 10 to 90; a transaction is open from 70 on, and 40 is the first record since 5 s after
    1970.
    """

    def offsets(self, wanted: dict[Any, int], *, read_committed: bool = False) -> dict[Any, int]:
        ends = {-2: 10, -1: 70 if read_committed else 90, 5_000: 40}
        return {place: ends.get(time, -1) for place, time in wanted.items()}


@pytest.mark.parametrize(
    ("text", "all_of_it", "committed"),
    [
        ("start", 10, 10),
        ("end", 90, 70),
        ("25", 25, 25),
        ("+7", 17, 17),
        ("+200", 90, 70),
        ("-15", 75, 55),
        ("-500", 10, 10),
        ("@5s", 40, 40),
        ("@4s", 90, 70),
    ],
)
def test_an_end_is_where_a_reader_ends(text: str, all_of_it: int, committed: int) -> None:
    bound = parse_offset_range(text, 10_000).start
    cluster: Any = Offsets()
    found = [resolve(cluster, bound, [("t", 0)], read_committed=each)["t", 0] for each in (False, True)]
    assert found == [all_of_it, committed]
