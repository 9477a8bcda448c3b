"""Two `moldau registry` processes; the one that writes is killed, and clients of the other notice nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

WAIT_SECONDS = 100.0


class Instance:
    """One process."""

    def __init__(self, bootstrap: str, topic: str, group: str, log: Path) -> None:
        settings = [f"kafkastore.topic={topic}", f"schema.registry.group.id={group}"]
        words = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "moldau", "registry", "-b", bootstrap, "--json"]
        self._log = log.open("ab")
        self.process = subprocess.Popen(
            [*command, "--listen", "http://127.0.0.1:0", *words], stdout=subprocess.PIPE, stderr=self._log
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, log.read_text()
        self.url: str = json.loads(line)["addresses"][0]

    def ask(self, path: str, body: Any = None) -> Any:
        """The body of a response; HTTPError for a refusal."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json"})
        with urlopen(request, timeout=WAIT_SECONDS) as answer:
            return json.loads(answer.read())

    @property
    def is_primary(self) -> bool:
        """What it says of itself."""
        try:
            health = self.ask("/health")
        except HTTPError as refusal:
            health = json.loads(refusal.read())
        return '"primary": true' in json.dumps(health)

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


@pytest.fixture
def instances(bootstrap: str, topic: str, group: str, tmp_path: Path) -> Iterator[list[Instance]]:
    started: list[Instance] = []
    try:
        for number in range(2):
            started.append(Instance(bootstrap, topic, group, tmp_path / f"{number}.log"))
        yield started
    finally:
        for instance in started:
            if instance.process.poll() is None:
                instance.kill()


@pytest.mark.timeout(400)
def test_a_client_of_the_other_instance_notices_nothing(instances: list[Instance]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(each.is_primary for each in instances) != 1:
        assert time.monotonic() < deadline, "no election"
        time.sleep(0.05)
    primary, other = sorted(instances, key=lambda each: not each.is_primary)
    ids = []
    for number in range(12):
        if number == 4:
            primary.kill()
        schema = f'{{"type":"record","name":"r{number}","fields":[]}}'
        ids.append(other.ask(f"/subjects/s{number}/versions", {"schema": schema})["id"])
        # Whoever wrote it, the instance that was asked sees it at once.
        assert other.ask(f"/subjects/s{number}/versions/1")["id"] == ids[-1]
    assert other.is_primary
    assert len(set(ids)) == 12
    assert ids == sorted(ids)
