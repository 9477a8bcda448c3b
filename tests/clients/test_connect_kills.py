"""kill -9 of worker and broker in the middle of everything: a file, a topic, files again, each line once.

    in --FileStreamSource--> topic --FileStreamSink--> out
                                   --FileSink--> JSON       small files are merged
                                   --FileSink--> Parquet    the same

What comes out is read by Python and pyarrow alone. `ROUNDS=200 pytest -m slow ...` for the long form.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from connect_parts import eventually
from pyarrow import parquet

from moldau.testing import Broker

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
WORKER = Path(__file__).with_name("connect_worker.py")
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Worker:
    """The process, which is killed and started again."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self._config = folder / "worker.json"
        self._config.write_text(json.dumps(config))
        self._log = folder / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER), str(self._config)], stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    @property
    def said(self) -> str:
        return self._log.read_text()[-5000:]


def connectors(folder: Path) -> dict[str, dict[str, str]]:
    quick = {
        "moldau.restart.delay.ms": "100",
        "moldau.restart.delay.max.ms": "500",
        "errors.retry.delay.max.ms": "500",
        "consumer.override.session.timeout.ms": "1500",
        "consumer.override.heartbeat.interval.ms": "300",
        "consumer.override.max.poll.records": "40",
        "topics": "lines",
    }
    return {
        "in": {
            **quick,
            "connector.class": "FileStreamSource",
            "file": str(folder / "in"),
            "topic": "lines",
            "batch.size": "20",
        },
        "out": {**quick, "connector.class": "FileStreamSink", "file": str(folder / "out")},
        "files": {
            **quick,
            "connector.class": "FileSink",
            "path": str(folder / "files"),
            "format": "json",
            "flush.size": "70",
            "rotate.interval.ms": "1500",
            "merge.min.files": "3",
            "tasks.max": "2",
        },
        "parquet": {
            **quick,
            "connector.class": "FileSink",
            "path": str(folder / "parquet"),
            "flush.size": "50",
            "rotate.interval.ms": "1000",
            "merge.min.files": "3",
            "tasks.max": "2",
            "transforms": "row",
            "transforms.row.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.row.field": "line",
        },
    }


@pytest.fixture
def killed_broker() -> Iterator[Broker]:
    with Broker(SETTINGS, process=True) as broker:
        yield broker


def in_file(folder: Path) -> list[str]:
    out = folder / "out"
    return out.read_text().splitlines() if out.exists() else []


def in_files(folder: Path) -> list[str]:
    found = []
    for each in sorted((folder / "files").rglob("*.json")):
        if "_moldau" not in each.parts:
            found += [json.loads(line) for line in each.read_text().splitlines()]
    return found


def in_parquet(folder: Path) -> list[str]:
    found: list[str] = []
    for each in sorted((folder / "parquet").rglob("*.parquet")):
        if "_moldau" not in each.parts:
            found += parquet.ParquetFile(each).read().column("line").to_pylist()
    return found


def whole(read: Callable[[Path], list[str]], folder: Path) -> list[str]:
    """What a reader sees who lists again where a file that it listed is gone: it was merged."""
    while True:
        try:
            return read(folder)
        except FileNotFoundError:
            pass


def merged(folder: Path) -> int:
    """How many files are of several."""
    return len([each for each in folder.rglob("*+*+*+*") if "_moldau" not in each.parts])


def run(broker: Broker, folder: Path, kills: int, seed: int) -> int:
    """How many merged files there are in the end."""
    chance = random.Random(seed)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("lines", 2, 1)])["lines"].result(60)
    worker = Worker(
        folder,
        {
            "worker": {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "workers",
                "offset.storage.topic": "connect-offsets",
                "offset.storage.partitions": "2",
                "offset.storage.replication.factor": "1",
                "offset.flush.interval.ms": "250",
                "key.converter": STRING,
                "value.converter": STRING,
            },
            "connectors": connectors(folder),
        },
    )
    source = folder / "in"
    source.touch()
    count = 0
    try:
        worker.start()
        for kill in range(kills):
            done = count
            for _ in range(chance.randint(3, 6)):
                with source.open("a") as file:
                    lines = chance.randint(1, 150)
                    file.writelines(f"line {count + n}\n" for n in range(lines))
                count += lines
                time.sleep(chance.random() * 0.3)
            if (
                chance.random() < 0.7
            ):  # let something get through; else it is killed in the middle of its start
                eventually(lambda done=done: len(in_file(folder)) > done)
            worker.kill()
            if kill % 3 == 1:
                broker.kill()
                broker.restart()
            worker.start()
        wanted = Counter(f"line {n}" for n in range(count))
        try:
            eventually(lambda: len(in_file(folder)) >= count, 180)
            eventually(lambda: len(whole(in_files, folder)) >= count, 180)
            eventually(lambda: len(whole(in_parquet, folder)) >= count, 180)
        except AssertionError:
            print(worker.said)
            raise
        time.sleep(1)  # what comes twice would come now
        assert Counter(in_file(folder)) == wanted
        assert Counter(whole(in_files, folder)) == wanted
        assert Counter(whole(in_parquet, folder)) == wanted
        return merged(folder / "files") + merged(folder / "parquet")
    finally:
        worker.kill()


def test_each_line_comes_once_over_kills(killed_broker: Broker, tmp_path: Path):
    run(killed_broker, tmp_path, 3, 1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_each_line_comes_once_over_many_kills(killed_broker: Broker, tmp_path: Path):
    assert run(killed_broker, tmp_path, int(os.environ.get("ROUNDS", "30")), 100) > 0
