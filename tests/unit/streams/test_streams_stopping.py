"""How an app is stopped: after its micro-batches, as long as they move; and what is said meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.streams import App, AppError, StreamsError
from moldau.streams.movement import Movement
from moldau.streams.runner import STOP_SECONDS, Runner, stopped_by_signals
from moldau.streams.spark_log import SparkLog
from moldau.streams.spark_work import Stage, Work, work_of


class BusyFlow:
    """A flow in the middle of a micro-batch, for so many looks."""

    def __init__(self, looks: int) -> None:
        self.flow, self.numbers = SimpleNamespace(name="f"), SimpleNamespace(batches=0)
        self.state, self.looks, self.told = "running", looks, ""

    @property
    def is_over(self) -> bool:
        return self.state != "running"

    def ask_to_stop(self) -> None:
        self.told += "asked "

    def poll(self, now: float) -> None:
        self.looks -= 1

    def stop_if_idle(self) -> bool:
        if self.looks <= 0:
            self.state = "stopped"
        return self.looks <= 0


@pytest.fixture
def said() -> list[str]:
    return []


def stopping(flow: BusyFlow, said: list[str], monkeypatch: pytest.MonkeyPatch, *, moves: bool) -> Runner:
    """A runner that is to end `flow`.

    Its clock goes on by ten seconds whenever it is asked; a task ends at each look if Spark `moves`.
    """
    runner = object.__new__(Runner)
    seconds = iter(range(0, 10_000_000, 10))
    done = iter(range(1_000_000))
    runner.flows, runner._say, runner._clock = [flow], said.append, lambda: float(next(seconds))  # type: ignore[list-item]
    runner._stop, runner._stop_now = threading.Event(), threading.Event()
    monkeypatch.setattr(runner._stop_now, "wait", lambda _: runner._stop_now.is_set())
    monkeypatch.setattr(
        Runner, "work", lambda _: Work((1,), (Stage(1, 99, next(done) if moves else 5, 0, 1),))
    )
    return runner


def test_a_micro_batch_that_moves_is_waited_for_however_long_it_takes(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = BusyFlow(looks=500)
    looked: list[int] = []
    stopping(flow, said, monkeypatch, moves=True)._end_gracefully(lambda: looked.append(1))
    assert flow.state == "stopped"
    assert flow.looks == 0
    assert len(looked) == 500
    assert said[0].startswith("waiting for the last micro-batch of f: Spark has 1 job at work, ")
    assert not any("stopped in the middle" in line for line in said)


def test_one_that_stands_still_is_given_up_with_a_word(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = BusyFlow(looks=500)
    stopping(flow, said, monkeypatch, moves=False)._end_gracefully(lambda: None)
    assert flow.state == "running", "who ends it is the caller"
    assert flow.looks > 400
    assert said[-1].startswith(f"no task of f has ended for {STOP_SECONDS:.0f} s: stopped in the middle")


def test_stop_is_asked_for_as_often_as_one_likes_and_a_second_signal_does_not_wait(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = stopping(BusyFlow(looks=9), said, monkeypatch, moves=True)
    runner.stop()
    runner.stop()
    assert runner.is_stopping
    assert not runner._stop_now.is_set()
    runner._stop.clear()
    with stopped_by_signals(runner):
        os.kill(os.getpid(), signal.SIGINT)
        assert runner.is_stopping
        assert not runner._stop_now.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert runner._stop_now.is_set()


def test_what_differs_has_moved() -> None:
    now = [0.0]
    movement = Movement(lambda: now[0])
    for seconds, seen, still in [(5.0, "a", 0.0), (6.0, "a", 1.0), (9.0, "a", 4.0), (10.0, "b", 0.0)]:
        now[0] = seconds
        movement.note(seen)
        assert movement.still_seconds == still


def test_the_work_of_spark_is_what_its_tracker_says() -> None:
    def stage(number: int) -> Any:
        return (
            None
            if number == 8
            else SimpleNamespace(
                stageId=number, numTasks=4, numCompletedTasks=1, numFailedTasks=0, numActiveTasks=2
            )
        )

    tracker = SimpleNamespace(
        getActiveJobsIds=lambda: [2, 1], getActiveStageIds=lambda: [9, 8, 7], getStageInfo=stage
    )
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    work = work_of(session)
    assert work == Work((1, 2), (Stage(7, 4, 1, 0, 2), Stage(9, 4, 1, 0, 2)))
    assert str(work) == "Spark has 2 jobs at work, 2 of 8 tasks done"
    assert not Work()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkLog]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log = SparkLog("app")
    yield log
    log.remove()


def test_what_our_code_says_in_sparks_processes_reaches_the_person(log: SparkLog) -> None:
    assert log.own_lines() == []
    assert log.is_empty
    os.write(log.writing, b"WARN Something\nmoldau: t-0 was del")
    assert log.own_lines() == []
    os.write(log.writing, b"eted\nTraceback (most recent call last):\nmoldau: twice\n")
    assert log.own_lines() == ["t-0 was deleted", "twice"]
    assert not log.is_empty
    assert log.own_lines() == []


def test_a_log_without_use_leaves_no_file(log: SparkLog) -> None:
    assert log.path.exists()
    log.remove()
    log.remove()
    assert not log.path.exists()


def test_the_file_is_named_where_it_helps_and_gone_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moldau.tools.commands.streams.run import kept_if_it_fails

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(StreamsError, match=r"^no broker$"), kept_if_it_fails("app"):
        raise StreamsError("no broker")

    def fail(log: SparkLog, words: bytes, failure: Exception) -> None:
        os.write(log.writing, words)
        raise failure

    with pytest.raises(AppError, match=r"^no flow$"), kept_if_it_fails("app") as log:
        fail(log, b"WARN\n", AppError("no flow"))
    with kept_if_it_fails("app") as log:
        os.write(log.writing, b"WARN\n")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StreamsError) as failure, kept_if_it_fails("app") as log:
        fail(log, b"OutOfMemoryError\n", StreamsError("Java has ended"))
    assert str(failure.value) == f"Java has ended; Spark's messages are in {log.path}"
    assert log.path.read_text() == "OutOfMemoryError\n"


def test_a_java_that_does_not_start_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from pyspark.errors import PySparkRuntimeError

    from moldau.streams.launching import started_session

    def start(*_: object, **__: object) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr("moldau.streams.session.spark_session", start)
    with pytest.raises(StreamsError, match="ended before it was ready"), started_session(App("a"), None):
        pass
