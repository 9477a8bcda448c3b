"""Two worker processes, a real broker, real connectors: a file goes through a topic into a file, and one is
killed."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker.fakes import eventually

from moldau.testing import Broker

_STRINGS = "org.apache.kafka.connect.storage.StringConverter"
_LINES = 2000


class Process:
    """`moldau connect run` of one group."""

    def __init__(self, broker: Broker, folder: Path, name: str) -> None:
        settings = {
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "500",
            "key.converter": _STRINGS,
            "value.converter": _STRINGS,
            "offset.storage.partitions": "2",
            "status.storage.partitions": "2",
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "500",
        }
        words = [word for each in settings.items() for word in ("-s", "=".join(each))]
        command = [sys.executable, "-m", "moldau.tools.main", "connect", "run", "--json"]
        self._log = (folder / f"{name}.log").open("w")
        self.process = subprocess.Popen(
            [*command, "-b", broker.bootstrap_servers, "-l", "http://127.0.0.1:0", *words],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (folder / f"{name}.log").read_text()
        self.url = json.loads(line)["addresses"][0]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def states(worker: Process, name: str) -> list[tuple[str, str]]:
    """State and worker of a connector and its tasks."""
    found = worker.ask("GET", f"/connectors/{name}/status")
    return [(each["state"], each["worker_id"]) for each in (found["connector"], *found["tasks"])]


def test_each_line_arrives_once_though_a_worker_is_killed(broker: Broker, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.touch()
    first, second = Process(broker, tmp_path, "first"), Process(broker, tmp_path, "second")
    try:
        made = {
            "from": {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines"},
            "to": {"connector.class": "FileStreamSink", "file": str(target), "topics": "lines"},
        }
        for name, config in made.items():
            assert first.ask("POST", "/connectors", {"name": name, "config": config})["name"] == name
        eventually(lambda: sorted(second.ask("GET", "/connectors")) == ["from", "to"])
        places = "from", "to"
        eventually(lambda: all(len(status(second, name)) == 2 for name in places))
        with source.open("a") as file:
            for number in range(_LINES):
                file.write(f"{number}\n")
                if number == _LINES // 2:
                    file.flush()
                    eventually(lambda: target.exists() and target.stat().st_size > 0)
                    second.kill()
        eventually(lambda: lines(target) >= _LINES, 120)
        time.sleep(1)
        assert target.read_text().split() == [str(number) for number in range(_LINES)]
        here = first.url.removeprefix("http://")
        eventually(lambda: {worker for name in places for _, worker in states(first, name)} == {here})
        offsets = first.ask("GET", "/connectors/from/offsets")["offsets"]
        assert [each["offset"] for each in offsets] == [{"position": os.path.getsize(source)}]
    finally:
        first.close()
        if second.process.poll() is None:
            second.close()


def status(worker: Process, name: str) -> list[tuple[str, str]]:
    """The running parts of a connector."""
    try:
        return [each for each in states(worker, name) if each[0] == "RUNNING"]
    except urllib.error.HTTPError:
        return []


def lines(path: Path) -> int:
    """How many there are."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
