"""A consumer whose close hangs does not keep a command from ending."""

import threading

import pytest

from moldau.cli.shared.closing import close


class Fake:
    """A consumer; `until` is what its close waits for."""

    def __init__(self, until: threading.Event) -> None:
        self.until = until
        self.is_closed = False

    def close(self) -> None:
        self.until.wait()
        self.is_closed = True


def test_it_closes() -> None:
    now = threading.Event()
    now.set()
    consumer = Fake(now)
    assert close(consumer, seconds=100)
    assert consumer.is_closed


def test_a_close_that_hangs_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    never = threading.Event()
    consumer = Fake(never)
    assert not close(consumer, seconds=0.05)
    assert not consumer.is_closed
    assert "its member stays until its session ends" in capsys.readouterr().err
    never.set()
