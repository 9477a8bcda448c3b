"""What may go wrong around flows for a while, or for ever: it is survived, refused, or said."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept import kept

from moldau.streams import App, AppError, StreamsError
from moldau.streams.checkpoints import Position, position_of
from moldau.streams.flow import Output
from moldau.streams.folder import Folder
from moldau.streams.lease import Lease
from moldau.streams.output_topics import Cluster
from moldau.streams.progress import FlowNumbers
from moldau.streams.runner import Runner
from moldau.streams.running import RunningFlow
from moldau.testing import Broker


def progress(run: str, batch: int, *, done: bool = True) -> Any:
    durations = {"addBatch": 1, "triggerExecution": 2} if done else {}
    return SimpleNamespace(
        runId=run,
        batchId=batch,
        durationMs=durations,
        eventTime={},
        sources=[],
        numInputRows=10,
        processedRowsPerSecond=1.0,
        observedMetrics={},
        stateOperators=[],
    )


def test_reports_are_counted_once_and_not_remembered_for_ever() -> None:
    numbers = FlowNumbers()
    for run in map(str, range(100)):
        assert numbers.add(progress(run, 0))
        assert not numbers.add(progress(run, 0))
        assert not numbers.add(progress(run, 1, done=False))
        assert numbers.add(progress(run, 1))
    assert (numbers.batches, numbers.rows_in) == (200, 2000)
    assert kept(numbers) < 20


def test_a_broker_may_be_gone_for_as_long_as_it_takes() -> None:
    flow = App("a").to("out", name="f")(lambda: None)  # type: ignore[arg-type,return-value]
    running = RunningFlow(flow, None, None, "", once=False, look=lambda: None)  # type: ignore[arg-type]
    for _ in range(2000):
        running._failed(Exception("ClusterTimeout: nobody answers"))
    assert running.state == "restarting"


def test_trouble_with_the_folder_is_said_once_and_outlived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = object.__new__(Runner)
    clock = iter(range(0, 1000, 10))
    said: list[str] = []
    runner._lease = Lease(Folder(tmp_path), "a", clock=lambda: float(next(clock)))
    runner._say, runner._trouble, runner.flows, runner._stop = said.append, "", [], threading.Event()
    runner._lease.take()
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        for _ in range(3):
            runner._renew()
    runner._renew()
    assert said == ["the folder of checkpoints gives trouble: [Errno 28] No space left"]


@pytest.mark.parametrize("text", ["", "v1\n", 'v1\n{"batchW', 'v1\n{}\n{"files": {"a": 1}}', "v1\nnull\n[]"])
def test_a_checkpoint_that_was_cut_off_says_no_position(text: str, tmp_path: Path) -> None:
    for folder, content in (("offsets", text), ("commits", "v1\n{}")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text(content)
    assert position_of(Folder(tmp_path)) == Position(0, 0)


def test_a_folder_by_its_uri(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    assert Folder(folder.as_uri()).address == str(folder)
    assert Folder(Folder(folder).uri).address == str(folder)


def test_dead_letters_that_would_come_back_are_refused() -> None:
    app = App("a")
    with pytest.raises(AppError, match="must go to another topic"):
        app.topic("x", value="string", dead_letters="x")
    with pytest.raises(AppError, match="bad_records='fail' writes no dead letters"):
        app.topic("x", value="string", dead_letters="y", bad_records="fail")


@pytest.mark.parametrize(
    "options",
    [
        {"kafka.default.api.timeout.ms": "60000", "kafka.Security.Protocol": "PLAINTEXT"},
        {"kafka.fetch.max.wait.ms": "100", "kafka.linger.ms": "5", "failOnDataLoss": "false"},
    ],
)
def test_the_cluster_takes_the_settings_that_flows_take(options: dict[str, str]) -> None:
    with Broker() as broker:
        broker.create_topic("here", 3)
        app = App("a", bootstrap_servers=broker.bootstrap_servers, options=options)
        cluster = Cluster(app)
        assert cluster.partitions["here"] == 3
        assert cluster.cluster_id
        output = Output("made", ("key",), is_table=True, config={"retention.ms": "5000"})
        said: list[str] = []
        cluster.make(output, ["here"], said.append)
        Cluster(app).make(output, ["here"], said.append)
        del cluster.partitions["made"]  # somebody else is quicker
        cluster.make(output, ["here"], said.append)
        assert said == ["made topic made: 3 partitions, compacted"]
        plain = Output("here", ("key",), is_table=True)
        cluster.make(plain, [], said.append)
        assert said[1].startswith("topic here is not compacted")
        wrong = Output("wrong", partitions=1, config={"retention.ms": "soon"})
        with pytest.raises(StreamsError, match=r"topic wrong cannot be made: .*retention\.ms"):
            cluster.make(wrong, [], said.append)
        cluster.close()


def test_settings_that_make_no_sense_are_a_sentence() -> None:
    with pytest.raises(StreamsError, match=r"security\.protocol"):
        Cluster(App("a", bootstrap_servers="127.0.0.1:1", options={"kafka.security.protocol": "MAGIC"}))


@pytest.mark.parametrize("ended", [True, False])
def test_the_end_of_java_is_one_sentence(ended: bool) -> None:
    pytest.importorskip("pyspark")
    from moldau.streams import launching

    command = "pass" if ended else "input()"
    with subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE) as process:
        expected = (StreamsError, "ran out of memory") if ended else (ConnectionRefusedError, "111")
        with pytest.raises(expected[0], match=expected[1]), launching.said_if_ended(process):
            raise ConnectionRefusedError("[Errno 111] Connection refused")
