"""A consumer whose close hangs does not keep a command from ending."""

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from moldau.cli.shared.closing import close


class Fake:
    """A consumer; `until` is what its close waits for."""

    def __init__(self, until: threading.Event) -> None:
        self.until = until
        self.done: list[str] = []

    def commit(self, *, asynchronous: bool) -> None:
        self.done.append("commit")
        raise KafkaException(KafkaError(KafkaError._NO_OFFSET))

    def close(self) -> None:
        self.until.wait()
        self.done.append("close")


def test_it_commits_and_closes() -> None:
    now = threading.Event()
    now.set()
    consumer = Fake(now)
    assert close(consumer, commits=True)
    assert consumer.done == ["commit", "close"]
    assert close(Fake(now), commits=False)


def test_a_close_that_hangs_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    never = threading.Event()
    consumer = Fake(never)
    assert not close(consumer, commits=True, seconds=0.05)
    assert consumer.done == ["commit"]
    assert "its member stays until its session ends" in capsys.readouterr().err
    never.set()
