"""When the demo sends, when it stops, what it calls a fault of the way there, and its exit code."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.streams import StreamsError
from moldau.streams.spark_work import Stage, Work
from moldau.tools.demo import command as demo
from moldau.tools.demo.screen import Screen
from moldau.tools.shared.errors import CommandError

DAY = "2013-12-31"
PAST_IT = "2014-01-27T00:00:00.000Z"


class FakeFeed(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(total=100, weather_total=10, sent=0, day="", size_bytes=1, seconds=1.0)
        self.done = False
        self.failure: BaseException | None = None
        self.went = False

    def go(self) -> None:
        self.went = True

    def finish(self) -> None:
        self.sent, self.day, self.done = 100, DAY, True


class FakeRunner:
    def __init__(self) -> None:
        self.flows: list[Any] = [self._flow("by_hour"), self._flow("by_carrier")]
        self.stops = 0
        self.spark = Work()

    def _flow(self, name: str) -> Any:
        numbers = SimpleNamespace(rows_in=0, batches=0, watermark="", rows_dropped_late=0)
        return SimpleNamespace(
            flow=SimpleNamespace(name=name),
            state="running",
            numbers=numbers,
            doing="Waiting for data to arrive",
            is_at_work=False,
        )

    def stop(self) -> None:
        self.stops += 1

    @property
    def is_stopping(self) -> bool:
        return self.stops > 0

    stopped = is_stopping

    def work(self) -> Work:
        return self.spark

    def read_all(self) -> None:
        for each in self.flows:
            each.numbers.rows_in = 101
        self.flows[0].numbers.watermark = PAST_IT


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def feed() -> Any:
    return FakeFeed()


@pytest.fixture
def runner() -> Any:
    return FakeRunner()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watcher(feed: Any, said: list[str], clock: Clock) -> demo.Watcher:
    return demo.Watcher(feed, said.append, clock)


def test_nothing_is_sent_before_every_flow_runs(watcher: demo.Watcher, feed: Any, runner: Any) -> None:
    runner.flows[1].state = "waiting"
    watcher.look(runner)
    assert not feed.went
    runner.flows[1].state = "running"
    watcher.look(runner)
    assert feed.went


def test_the_flows_stop_when_all_is_read_and_every_window_closed(
    watcher: demo.Watcher, feed: Any, runner: Any, said: list[str]
) -> None:
    feed.finish()
    watcher.look(runner)
    assert not runner.stopped
    runner.read_all()
    runner.flows[0].numbers.watermark = "2013-12-30T00:00:00.000Z"
    watcher.look(runner)
    assert not runner.stopped
    runner.flows[0].numbers.watermark = PAST_IT
    runner.flows[1].numbers.rows_in = 100
    watcher.look(runner)
    assert not runner.stopped
    runner.flows[1].numbers.rows_in = 101
    watcher.look(runner)
    assert runner.stopped
    assert watcher.faults(runner) == []
    assert len(said) == 1


def test_the_flows_are_asked_to_stop_once(watcher: demo.Watcher, feed: Any, runner: Any) -> None:
    # The runner goes on looking while the last micro-batches run; to ask again would cut them off.
    feed.finish()
    runner.read_all()
    for _ in range(3):
        watcher.look(runner)
    assert runner.stops == 1


def test_a_standstill_ends_it_and_says_what_stood_still(
    watcher: demo.Watcher, runner: Any, clock: Clock
) -> None:
    watcher.look(runner)
    clock.now = demo.STANDSTILL_SECONDS - 1
    watcher.look(runner)
    assert not runner.stopped
    clock.now = demo.STANDSTILL_SECONDS + 1
    for _ in range(3):
        watcher.look(runner)
    assert runner.stops == 1
    assert watcher.faults(runner) == [
        "no progress for 91 s: by_hour is Waiting for data to arrive, by_carrier is Waiting for data to "
        "arrive; Spark has no job; 0 of 100 departures were sent"
    ]


def test_tasks_of_spark_are_movement_and_a_busy_machine_is_waited_for(
    watcher: demo.Watcher, runner: Any, clock: Clock, said: list[str]
) -> None:
    for done in range(8):  # a micro-batch of ten minutes, a task every 80 seconds
        runner.spark = Work((1,), (Stage(3, 8, done, 0, 1),))
        clock.now = done * 80.0
        watcher.look(runner)
    assert not runner.stopped
    assert said[-1] == (
        "waiting: by_hour is Waiting for data to arrive, by_carrier is Waiting for data to arrive; "
        "Spark has 1 job at work, 7 of 8 tasks done"
    )
    clock.now += demo.STANDSTILL_AT_WORK_SECONDS - 1
    watcher.look(runner)
    assert not runner.stopped, "a task may take long where everything does"
    clock.now += 2
    watcher.look(runner)
    assert runner.stopped
    assert "7 of 8 tasks done" in watcher.trouble


def test_a_query_that_is_being_started_is_waited_for(
    watcher: demo.Watcher, runner: Any, clock: Clock
) -> None:
    runner.flows[0].is_at_work = True
    watcher.look(runner)
    clock.now = demo.STANDSTILL_SECONDS + 1
    watcher.look(runner)
    assert not runner.stopped


def test_a_feed_that_fails_ends_it_and_is_a_fault(watcher: demo.Watcher, feed: Any, runner: Any) -> None:
    feed.failure = CommandError("no broker")
    watcher.look(runner)
    assert runner.stopped
    assert watcher.faults(runner) == ["the records could not be sent: no broker"]


def test_flows_that_end_early_are_a_fault(watcher: demo.Watcher, runner: Any) -> None:
    watcher.look(runner)
    assert "ended before everything was done" in watcher.faults(runner)[0]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("rows_in", 102, "by_carrier read 102 records of 101"),
        ("rows_dropped_late", 3, "by_carrier dropped 3 late records"),
    ],
)
def test_rows_too_many_or_too_late_are_a_fault(
    watcher: demo.Watcher, feed: Any, runner: Any, name: str, value: int, words: str
) -> None:
    feed.finish()
    runner.read_all()
    setattr(runner.flows[1].numbers, name, value)
    watcher.look(runner)
    assert watcher.faults(runner) == [words]


class FakeBroker:
    def __init__(self, **arguments: Any) -> None:
        self.bootstrap_servers, self.http_address, self.pid = "127.0.0.1:1", "127.0.0.1:2", 3
        self.registry_url = "http://127.0.0.1:4"
        self.data = Path("data")
        self.runs = False
        FakeBroker.last = self

    last: FakeBroker

    def start(self) -> None:
        self.runs = True

    def stop(self) -> None:
        self.runs = False


@pytest.mark.parametrize(
    ("keep", "faults", "runs"), [(False, [], False), (True, [], True), (True, ["x"], False)]
)
def test_a_fault_is_a_failure_and_only_a_good_broker_is_kept(
    keep: bool, faults: list[str], runs: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("moldau.testing.Broker", FakeBroker, raising=False)
    monkeypatch.setattr("moldau.tools.demo.flights.find_table", lambda name: tmp_path)
    monkeypatch.setattr(demo, "run_demo", lambda *arguments: faults)
    if faults:
        with pytest.raises(CommandError, match="1 fault"):
            demo.demo(keep=keep)
    else:
        demo.demo(keep=keep)
    assert FakeBroker.last.runs == runs


def test_a_broker_that_runs_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("moldau.testing.Broker", None)
    monkeypatch.setattr("moldau.tools.demo.flights.find_table", lambda name: tmp_path)
    monkeypatch.setattr(demo, "run_demo", lambda at, *arguments: asked.append(at) or [])
    demo.demo(bootstrap="127.0.0.1:7", registry="http://127.0.0.1:8")
    assert asked == ["127.0.0.1:7"]
    assert "topics delete departures weather delays-by-hour delays-by-carrier -b 127.0.0.1:7" in " ".join(
        capsys.readouterr().out.split()
    )
    with pytest.raises(CommandError, match="--data is for the demo's own broker"):
        demo.demo(bootstrap="127.0.0.1:7", data=tmp_path)


def test_topics_with_records_are_not_touched() -> None:
    from confluent_kafka import Producer

    from moldau.testing import Broker
    from moldau.tools.demo.topics import make_topics

    with Broker() as broker:
        make_topics(broker.bootstrap_servers)
        make_topics(broker.bootstrap_servers)  # there, and empty
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("weather", b"sunny", b"JFK")
        assert producer.flush(30) == 0
        with pytest.raises(
            CommandError, match=r"topic weather at .* is not empty \(1 records\).*nothing was"
        ):
            make_topics(broker.bootstrap_servers)


@pytest.mark.parametrize("trouble", ["no progress for 91 s", ""])
def test_the_first_reason_is_told_and_not_what_came_of_it(
    trouble: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A standstill stops the flows; that one of them then fails is no reason but its consequence."""

    def run_app(app: Any, *, watch: Any, spark_log: Any, **options: Any) -> Any:
        os.write(spark_log.writing, b"ERROR TaskSchedulerImpl: Lost executor\n" * 2000)
        watcher.trouble = trouble
        raise StreamsError("flow by_hour failed: Python worker exited unexpectedly (crashed)")

    def make(*arguments: Any) -> demo.Watcher:
        nonlocal watcher
        watcher = real(*arguments)
        return watcher

    real, watcher = demo.Watcher, demo.Watcher(FakeFeed(), str)  # type: ignore[arg-type]
    monkeypatch.setattr(demo, "Watcher", make)
    monkeypatch.setattr("moldau.streams.runner.run_app", run_app)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    where: Any = ("127.0.0.1:1", tmp_path / "work", Screen(), FakeFeed(), {})
    if not trouble:
        with pytest.raises(StreamsError, match=r"flow by_hour failed.*; Spark's messages are in /.*\.log$"):
            demo.stream(*where)
    else:
        found, has_results = demo.stream(*where)
        assert found[0] == trouble
        assert found[1].startswith("flow by_hour failed")
        assert not has_results
    (log,) = tmp_path.glob("moldau-demo-spark-*.log")
    assert log.read_text().count("Lost executor") == 2000
    said = capsys.readouterr()
    assert str(log) in said.out.replace("\n", "")
    assert "Lost executor" not in said.out + said.err
