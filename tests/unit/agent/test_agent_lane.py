"""A lane: its quota, and the sources it remembers when records of theirs are gone from the disk."""

from moldau.kit.agent.lane import Lane
from moldau.kit.agent.message import Message
from moldau.kit.agent.settings import AgentSettings, Quota


def test_a_quota_allows_a_seconds_worth_at_once_and_then_the_rate(tmp_path):
    lane = Lane("t", tmp_path, Quota("*", 1000))
    assert lane.may_take(600, 0.0)
    assert lane.may_take(400, 0.0)
    assert not lane.may_take(100, 0.05)
    assert lane.may_take(100, 0.1)
    assert not lane.may_take(1000, 0.5)
    assert lane.may_take(1000, 50.0)
    assert not lane.may_take(1, 50.0)
    assert lane.may_take(5000, 60.0)  # larger than the rate: when the second is full
    assert not lane.may_take(1, 63.9)


def test_the_first_quota_that_matches_counts(tmp_path):
    settings = AgentSettings(tmp_path, quotas=(Quota("logs-*", 1), Quota("*", 2)))
    assert settings.quota("logs-web").bytes_per_second == 1
    assert settings.quota("orders").bytes_per_second == 2


def test_sources_are_remembered_when_their_records_are_gone(tmp_path):
    quota = Quota("*", 0, 1_000_000)
    lane = Lane("t", tmp_path / "t", quota)
    spool = lane.open()
    for sequence in range(300):
        spool.append([Message("t", b"x" * 1000, source="a" if sequence else "b", sequence=sequence).encode()])
        lane.remember([("a" if sequence else "b", sequence)])
        spool.sync()
        spool.acknowledge(sequence + 1)
        lane.save()
    assert spool.oldest_number > 100
    lane.close()
    again = Lane("t", tmp_path / "t", quota)
    again.open()
    assert again.is_duplicate("a", 299)
    assert not again.is_duplicate("a", 300)
    assert again.is_duplicate("b", 0)
    assert not again.is_duplicate("b", 1)
    assert not again.is_duplicate("", 0)
    again.close()
