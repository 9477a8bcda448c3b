"""kafka-consumer-groups: moments and durations as Java parses them, and tables; more is in tests/clients."""

from __future__ import annotations

import pytest

from moldau.client.admin.groups import Group, Member
from moldau.client.admin.topics import Broker
from moldau.tools.kafka.formats.group_descriptions import print_members
from moldau.tools.kafka.java.java_times import duration_ms, moment_ms
from moldau.tools.kafka.problems import ToolError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T00:00:01.500Z", 1_500),
        ("1970-01-01T01:00:00.000+01", 0),
        ("1970-01-01T01:30:00.000+0130", 0),
        ("1970-01-01T00:00:00.000-02:00", 7_200_000),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert moment_ms(text) == expected


@pytest.mark.parametrize("text", ["yesterday", "1970-01-01T00:00:01", "1970-13-01T00:00:00.000", "T"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ToolError, match="ParseException"):
        moment_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1D", 86_400_000),
        ("PT2H30M", 9_000_000),
        ("p1dt0.5s", 86_400_500),
        ("P-1D", -86_400_000),
        ("-PT1S", -1_000),
        ("P0DT0S", 0),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["PT", "P", "1h", "P1M", "P1DT", ""])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ToolError, match="cannot be parsed to a Duration"):
        duration_ms(text)


def test_a_static_members_table_has_a_column_more(capsys: pytest.CaptureFixture[str]) -> None:
    member = Member("id", "static", "client", "/127.0.0.1", (("t", 0), ("t", 2), ("u", 1)))
    print_members([Group("g", "Stable", "range", Broker(1, "h", 9092, None), (member,))], verbose=True)
    _, heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[2] == "GROUP-INSTANCE-ID"
    assert row.split() == ["g", "id", "static", "/127.0.0.1", "client", "3", "-", "t:0,2;u:1", "-", "-"]
