"""A sink that moves between the engines: what sends it back, and who is fenced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from moldau.connect import TopicPartition
from moldau.connect.errors import ConnectError, Retriable
from moldau.services.connect.runtime import spark_commits, task_thread
from moldau.services.connect.runtime.building import Shared, _fence_drivers
from moldau.services.connect.runtime.control import Control
from moldau.services.connect.runtime.engines import LOCAL, SPARK, TASK_ENGINE
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.runtime.metrics import TaskMetrics
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_notes import Notes
from moldau.services.connect.runtime.spark_commits import NotAlone
from moldau.services.connect.runtime.spark_ranges import Ends, Range
from moldau.services.connect.runtime.spark_task import SparkSinkTask
from moldau.services.connect.runtime.task_thread import TaskThread

CONFIG = {
    "connector.class": "FileStreamSink",
    "file": "/nowhere",
    "topics": "t",
    "moldau.connect.engine": "auto",
    "moldau.restart.delay.ms": "0",
    TASK_ENGINE: SPARK,
}


class Time:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.at_ms

    def now_ms(self) -> int:
        return int(self.at_ms)


def engines_after(
    failures: list[tuple[Exception, float]], monkeypatch: pytest.MonkeyPatch
) -> list[str | None]:
    """The engine of each run, of which each fails after so many ms; and of the one after them."""
    time, engines = Time(), []
    left = list(failures)

    def build(setup: TaskSetup, *_: Any) -> Any:
        config: Mapping[str, str] = setup.config
        engines.append(config.get(TASK_ENGINE))
        if not left:
            task.stop()
            raise ConnectError("the end")
        failure, ran_ms = left.pop(0)
        time.at_ms += ran_ms
        raise failure

    monkeypatch.setattr(task_thread, "build", build)
    setup = TaskSetup(TaskId("s", 0), CONFIG, {})
    shared: Any = Shared({}, time, None, None, lambda *_: None, lambda: None)  # type: ignore[arg-type]
    task = TaskThread(setup, shared, State.RUNNING, lambda status: None)
    task.start()
    assert task.join(60)
    return engines


def test_what_fails_on_spark_again_and_again_runs_locally(monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[tuple[Exception, float]] = [(ConnectError("no executor"), 1.0)] * 3
    assert engines_after(broken, monkeypatch) == [SPARK, SPARK, SPARK, LOCAL]


def test_waiting_for_local_tasks_to_leave_is_no_failure_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their last flush, or the session of a dead worker, takes longer than three attempts."""
    waits: list[tuple[Exception, float]] = [(NotAlone("2 members"), 1.0)] * 8
    assert engines_after(waits, monkeypatch) == [SPARK] * 9


def test_failures_with_long_runs_between_them_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seldom: list[tuple[Exception, float]] = [(ConnectError("a broker went"), 3_600_000.0)] * 8
    assert engines_after(seldom, monkeypatch) == [SPARK] * 9


def test_a_local_task_does_not_start_where_drivers_could_not_be_fenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = TaskSetup(TaskId("s", 0), CONFIG, {})
    shared: Any = Shared({}, Time(), None, None, lambda *_: None, lambda: None)  # type: ignore[arg-type]

    def fails(failure: Exception) -> None:
        def fence(setup: TaskSetup) -> None:
            raise failure

        monkeypatch.setattr(spark_commits, "fence", fence)

    fails(ConnectError("TRANSACTIONAL_ID_AUTHORIZATION_FAILED"))
    _fence_drivers(setup, shared)
    fails(Retriable("the coordinator is away"))
    with pytest.raises(Retriable):
        _fence_drivers(setup, shared)
    shared.worker["exactly.once.source.support"] = "disabled"  # a cluster without transactions, perhaps
    _fence_drivers(setup, shared)


class Group:
    """Where a group stands; notes nothing."""

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets = offsets

    def known(self, places: list[TopicPartition]) -> dict[TopicPartition, Notes]:
        return {each: Notes(self.offsets.get(each)) for each in places}

    def note(self, ranges: Mapping[TopicPartition, Range]) -> None: ...


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_partition_that_comes_later_begins_where_the_query_reads_it(tmp_path: Path, reset: str) -> None:
    """From its beginning; where the group has been there, the query begins anew."""
    worker = {"bootstrap.servers": "127.0.0.1:1", "consumer.auto.offset.reset": reset}
    setup = TaskSetup(TaskId("s", 0), CONFIG, worker)
    task: Any = SparkSinkTask(setup, lambda: None, Control(), TaskMetrics(Time()), lambda _: None)  # type: ignore[arg-type]
    written: list[Ends] = []
    old, late = TopicPartition("t", 0), TopicPartition("t", 1)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"t":{"0":7,"1":12}}')
    task._consumer.close()

    class Watermarks:
        def get_watermark_offsets(self, place: Any, seconds: float) -> tuple[int, int]:
            return (3, 12)

    task._consumer, task._commits = Watermarks(), Group({})
    task._write = lambda rows, ends, bad: written.append(ends)
    task._micro_batch(tmp_path, {old: 7}, None, 0)
    assert written == [{late: [12]}]
    task._commits = Group({late: 9})
    with pytest.raises(Retriable, match="begins anew"):
        task._micro_batch(tmp_path, {old: 7}, None, 0)
    assert len(written) == 1
