"""A commit that cannot be done ends in time, with the cause that the cluster knows."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from moldau.tools.commands.records import group_commits
from moldau.tools.commands.records.group_commits import GroupCommits
from moldau.tools.shared.errors import CommandError

CAUSE = "the disk of /data on broker 1 is full: free space on it"


class FakeConsumer:
    """Its commits end with `failure`, or never where that is "silence"."""

    def __init__(self, failure: Any = None) -> None:
        self.failure = failure
        self.committed: list[tuple[str, int, int]] = []

    def commit(self, *, offsets: list[Any], asynchronous: bool) -> list[Any]:
        assert not asynchronous
        if self.failure == "silence":
            threading.Event().wait()
        if self.failure is not None:
            raise KafkaException(KafkaError(self.failure))
        self.committed += [(each.topic, each.partition, each.offset) for each in offsets]
        return []


def commits(
    consumer: FakeConsumer, monkeypatch: pytest.MonkeyPatch, timeout_seconds: float = 30
) -> GroupCommits:
    monkeypatch.setattr(group_commits, "why_stalled", lambda connection, coordinators: CAUSE)
    made = GroupCommits(consumer, "g", SimpleNamespace(timeout_seconds=timeout_seconds))  # type: ignore[arg-type]
    made.printed(SimpleNamespace(topic=lambda: "t", partition=lambda: 2, offset=lambda: 6))
    return made


def test_what_was_printed_is_committed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer()
    made = commits(consumer, monkeypatch)
    made.finish()
    made.finish()
    assert consumer.committed == [("t", 2, 7)]
    assert not made.refused


@pytest.mark.parametrize("failure", ["silence", KafkaError.COORDINATOR_NOT_AVAILABLE])
def test_a_commit_that_is_not_taken_names_the_cause(failure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = commits(FakeConsumer(failure), monkeypatch, 0.05 if failure == "silence" else 30)
    with pytest.raises(CommandError, match=r"could not be committed for group g .*the disk of /data"):
        made.finish()
    assert made.refused
    made.finish()  # not a second time


def test_a_commit_that_a_rebalance_overtakes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = commits(FakeConsumer(KafkaError.ILLEGAL_GENERATION), monkeypatch)
    made.finish()
    assert not made.refused


def test_a_group_that_lets_nobody_in_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    made = commits(FakeConsumer(), monkeypatch, -1)
    with pytest.raises(CommandError, match="does not let this member in: the disk of /data"):
        made.tick()
