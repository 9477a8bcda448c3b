"""moldau streams list, describe, reset, and what run says of a file: no broker, no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.streams import App
from moldau.streams.checkpoints import Owner, claim
from moldau.streams.folder import Folder
from moldau.streams.lease import Lease
from moldau.tools.commands.streams.run import RunOptions, override
from moldau.tools.main import main

NOBODY = "127.0.0.1:1"


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Two flows of an app; the first has done a micro-batch."""
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", NOBODY)
    monkeypatch.setenv("MOLDAU_CHECKPOINTS", str(tmp_path))
    root = Folder(tmp_path)
    for flow in ("early", "late"):
        claim(root / "delays" / flow, Owner("delays", flow, ("flights",), ("names",), f"{flow}-flights", "c"))
    late = root / "delays" / "late"
    (late / "offsets").write("0", 'v1\n{"batchWatermarkMs":86400000}\n{"flights":{"0":12}}')
    (late / "commits").write("0", "v1\n{}")
    return root


def test_list_shows_flows_without_a_broker(checkpoints: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "list"]) == 0
    captured = capsys.readouterr()
    assert [line.split() for line in captured.out.splitlines()] == [
        ["APP", "FLOW", "STATE", "READS", "WRITES", "BATCH", "LAG"],
        ["delays", "early", "stopped", "flights,names", "early-flights", "-", "-"],
        ["delays", "late", "stopped", "flights,names", "late-flights", "0", "-"],
    ]
    assert "this is the state in the checkpoints" in captured.err


def test_describe_shows_where_a_flow_stands(checkpoints: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    Lease(checkpoints / "delays", "delays").take()
    assert main(["streams", "describe", "delays", "late", "--json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)
    assert described["state"] == "running"
    assert described["watermark"] == "1970-01-02T00:00:00Z"
    assert described["partitions"] == [
        {"topic": "flights", "partition": 0, "position": 12, "group_offset": None, "end": None, "lag": None}
    ]
    assert main(["streams", "describe", "delays", "never"]) == 1
    assert "flow never of app delays has no checkpoint" in capsys.readouterr().err


def test_reset_asks_and_refuses_what_runs(
    checkpoints: Folder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.confirm", lambda text: False)
    assert main(["streams", "reset", "delays"]) == 1
    lease = Lease(checkpoints / "delays", "delays")
    lease.take()
    assert main(["streams", "reset", "delays", "--yes"]) == 1
    assert "app delays runs (process" in capsys.readouterr().err
    assert (checkpoints / "delays").names() == ["driver.json", "early", "late"]
    lease.leave()
    assert main(["streams", "reset", "delays", "late", "--yes"]) == 0
    assert (checkpoints / "delays").names() == ["early"]
    assert main(["streams", "reset", "delays", "--yes"]) == 0
    assert checkpoints.names() == []


def test_the_command_line_holds_over_what_the_app_says() -> None:
    app = App("delays", bootstrap_servers="one:9092", checkpoints="here")
    override(app, RunOptions())
    assert (app.bootstrap_servers, app.checkpoints, app.delivery) == ("one:9092", "here", "exactly-once")
    override(
        app,
        RunOptions(
            bootstrap="two:9092",
            checkpoints="there",
            delivery="at-least-once",
            spark=("spark.driver.memory=2g",),
            client_settings=("security.protocol=ssl",),
        ),
    )
    assert (app.bootstrap_servers, app.checkpoints, app.delivery) == ("two:9092", "there", "at-least-once")
    assert app.settings == {"spark.driver.memory": "2g"}
    assert app.options == {"kafka.security.protocol": "ssl"}


def test_run_says_what_to_install_where_spark_is_missing(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from moldau.streams import App\napp = App('a')\n")
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from moldau.tools.main import main\n"
        f"sys.exit(main(['streams', 'run', {str(tmp_path / 'app.py')!r}]))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "pip install 'moldau[spark]'" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_file_that_is_no_app_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "nothing.py"
    file.write_text("x = 1\n")
    assert main(["streams", "run", str(file)]) == 2
    assert "makes no app: it needs a line such as app = App('name')" in capsys.readouterr().err
    file.write_text("from moldau.streams import App\na, b = App('a'), App('b')\n")
    assert main(["streams", "run", str(file)]) == 2
    assert "makes several apps (a, b): choose one with --app" in capsys.readouterr().err
