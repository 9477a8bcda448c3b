"""Instances of the registry and their broker are killed while they register schemas.

Whatever dies when: no id is given to two schemas, no schema has two ids, and nothing that was acknowledged is
lost. Records of aborted transactions count too: registries that read uncommitted records see their ids.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from registry_instance import service

from bench.brokers import BrokerProcess
from moldau.client.cluster import Cluster
from moldau.client.fetcher import fetch_range

INSTANCES = 3
ROUNDS = 4
WAIT_SECONDS = 120.0


class Instance:
    """One process, killed and started again under one name."""

    def __init__(self, folder: Path, words: list[str], name: str, port: int) -> None:
        self._words, self.name, self._port = words, name, port
        self._path = folder / f"{name}.jsonl"
        self._log: IO[bytes] = (folder / f"{name}.log").open("ab")
        self._births = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; each life has a name of its own, so that its subjects are new."""
        self._births += 1
        words = [*self._words, str(self._port), f"{self.name}x{self._births}"]
        script = str(Path(__file__).parent / "registry_instance.py")
        with self._path.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, script, *words], stdin=subprocess.PIPE, stdout=output, stderr=self._log
            )

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process = None

    def acknowledged(self) -> list[dict[str, object]]:
        """What it said was registered; a line that the kill cut off was said to nobody."""
        if not self._path.exists():
            return []
        lines = []
        for line in self._path.read_bytes().split(b"\n"):
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
        return lines


@pytest.fixture
def instances(
    tmp_path: Path, private_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> Iterator[tuple[BrokerProcess, list[Instance]]]:
    broker = private_broker(group_min_session_timeout_ms="500")
    words = [broker.address, topic, group]
    started = [Instance(tmp_path, words, f"i{index}", 20_000 + index) for index in range(INSTANCES)]
    for instance in started:
        instance.start()
    yield broker, started
    for instance in started:
        instance.kill()


def wait_for_progress(instances: list[Instance], more: int = 30) -> None:
    """Until `more` further schemas were acknowledged."""
    counted = sum(len(each.acknowledged()) for each in instances)
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(len(each.acknowledged()) for each in instances) < counted + more:
        assert time.monotonic() < deadline, "nothing was registered for too long"
        time.sleep(0.05)


def uncommitted_ids(bootstrap: str, topic: str) -> dict[int, set[str]]:
    """The texts that each id ever stood for in the topic, aborted records included."""
    found: dict[int, set[str]] = defaultdict(set)
    with Cluster(bootstrap) as cluster:
        start, end = (cluster.offsets({(topic, 0): which})[topic, 0] for which in (-2, -1))
        for batch in fetch_range(cluster, topic, 0, start, end, read_committed=False):
            for record in batch.records():
                value = json.loads(record.value) if record.value else {}
                if "schema" in value:
                    found[value["id"]].add(value["schema"])
    return found


@pytest.mark.timeout(600)
def test_no_id_is_given_twice_and_nothing_acknowledged_is_lost(
    instances: tuple[BrokerProcess, list[Instance]], topic: str, group: str
) -> None:
    broker, started = instances
    chance = random.Random(14)
    wait_for_progress(started)
    for number in range(ROUNDS):
        if number % 3 == 2:
            broker.kill()
            broker.start()
        else:
            victim = chance.choice(started)
            victim.kill()
            victim.start()
        wait_for_progress(started)
    # One instance is stopped while it may be primary, and goes on when another is: a deposed primary.
    sleeper = started[0].process
    assert sleeper is not None
    os.kill(sleeper.pid, signal.SIGSTOP)
    wait_for_progress(started[1:])
    os.kill(sleeper.pid, signal.SIGCONT)
    wait_for_progress(started)
    for instance in started:
        instance.kill()

    acknowledged = [line for instance in started for line in instance.acknowledged()]
    texts: dict[object, set[object]] = defaultdict(set)
    ids: dict[object, set[object]] = defaultdict(set)
    for line in acknowledged:
        texts[line["id"]].add(line["text"])
        ids[line["text"]].add(line["id"])
    assert {schema_id: found for schema_id, found in texts.items() if len(found) > 1} == {}
    assert {text: found for text, found in ids.items() if len(found) > 1} == {}

    fresh = service(broker.address, topic, group, 30_000)
    try:
        fresh.instance.start()
        for line in acknowledged:
            assert fresh.version(str(line["subject"]), "1")["id"] == line["id"]
    finally:
        fresh.instance.close()
    everything = uncommitted_ids(broker.address, topic)
    assert {schema_id: found for schema_id, found in everything.items() if len(found) > 1} == {}
