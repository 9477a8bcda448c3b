"""When the demo sends, when it stops, what it calls a fault of the way there, and its exit code."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.cli import demo
from moldau.cli.errors import CommandError

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
        self.stopped = False

    def _flow(self, name: str) -> Any:
        numbers = SimpleNamespace(rows_in=0, batches=0, watermark="", rows_dropped_late=0)
        return SimpleNamespace(flow=SimpleNamespace(name=name), state="running", numbers=numbers)

    def stop(self) -> None:
        self.stopped = True

    def read_all(self) -> None:
        for each in self.flows:
            each.numbers.rows_in = 101
        self.flows[0].numbers.watermark = PAST_IT


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
def watcher(feed: Any, said: list[str]) -> demo.Watcher:
    return demo.Watcher(feed, said.append)


def test_nothing_is_sent_before_every_flow_runs(watcher: demo.Watcher, feed: Any, runner: Any) -> None:
    runner.flows[1].state = "waiting"
    watcher.look(runner, 0.0)
    assert not feed.went
    runner.flows[1].state = "running"
    watcher.look(runner, 1.0)
    assert feed.went


def test_the_flows_stop_when_all_is_read_and_every_window_closed(
    watcher: demo.Watcher, feed: Any, runner: Any, said: list[str]
) -> None:
    feed.finish()
    watcher.look(runner, 0.0)
    assert not runner.stopped
    runner.read_all()
    runner.flows[0].numbers.watermark = "2013-12-30T00:00:00.000Z"
    watcher.look(runner, 1.0)
    assert not runner.stopped
    runner.flows[0].numbers.watermark = PAST_IT
    runner.flows[1].numbers.rows_in = 100
    watcher.look(runner, 2.0)
    assert not runner.stopped
    runner.flows[1].numbers.rows_in = 101
    watcher.look(runner, 3.0)
    assert runner.stopped
    assert watcher.faults(runner) == []
    assert len(said) == 1


def test_a_standstill_ends_it_and_is_a_fault(watcher: demo.Watcher, runner: Any) -> None:
    watcher.look(runner, 0.0)
    watcher.look(runner, demo.STANDSTILL_SECONDS - 1)
    assert not runner.stopped
    watcher.look(runner, demo.STANDSTILL_SECONDS + 1)
    assert runner.stopped
    assert "nothing moved" in watcher.faults(runner)[0]


def test_a_feed_that_fails_ends_it_and_is_a_fault(watcher: demo.Watcher, feed: Any, runner: Any) -> None:
    feed.failure = CommandError("no broker")
    watcher.look(runner, 0.0)
    assert runner.stopped
    assert watcher.faults(runner) == ["the records could not be sent: no broker"]


def test_flows_that_end_early_are_a_fault(watcher: demo.Watcher, runner: Any) -> None:
    watcher.look(runner, 0.0)
    assert "ended before everything was done" in watcher.faults(runner)[0]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("rows_in", 102, "by_carrier read 102 records of 101"),
        ("rows_dropped_late", 3, "by_carrier left 3 out as too late"),
    ],
)
def test_rows_too_many_or_too_late_are_a_fault(
    watcher: demo.Watcher, feed: Any, runner: Any, name: str, value: int, words: str
) -> None:
    feed.finish()
    runner.read_all()
    setattr(runner.flows[1].numbers, name, value)
    watcher.look(runner, 0.0)
    assert watcher.faults(runner) == [words]


class FakeBroker:
    def __init__(self, **arguments: Any) -> None:
        self.bootstrap_servers, self.http_address, self.pid = "127.0.0.1:1", "127.0.0.1:2", 3
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
    monkeypatch.setattr("moldau.cli.demo_flights.find_table", lambda name: tmp_path)
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
    monkeypatch.setattr("moldau.cli.demo_flights.find_table", lambda name: tmp_path)
    monkeypatch.setattr(demo, "run_demo", lambda at, *arguments: asked.append(at) or [])
    demo.demo(bootstrap="127.0.0.1:7")
    assert asked == ["127.0.0.1:7"]
    assert "topics delete departures weather delays-by-hour delays-by-carrier -b 127.0.0.1:7" in " ".join(
        capsys.readouterr().out.split()
    )
    with pytest.raises(CommandError, match="--data is for the demo's own broker"):
        demo.demo(bootstrap="127.0.0.1:7", data=tmp_path)


def test_topics_with_records_are_not_touched() -> None:
    from confluent_kafka import Producer

    from moldau.cli.demo_topics import make_topics
    from moldau.testing import Broker

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
