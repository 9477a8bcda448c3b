"""kcat of Debian (librdkafka 2.0.2) as a client under test: an old C client that many people script with.

kcat knows headers only for a whole run, so messages are grouped by their headers and a run made of each
group; an empty value and a missing one look alike to it on the way in (`-Z` makes both null).
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from itertools import groupby

from client_model import CODECS, Member, Message, Place, Received

_KEY_SEPARATOR = "|:|"


class KcatClient:
    name = "kcat"
    codecs = CODECS

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(self, topic: str, messages: Sequence[Message], codec: str = "none") -> None:
        for (headers, partition), run in groupby(messages, key=lambda one: (one.headers, one.partition)):
            command = [
                "kcat",
                "-b",
                self.bootstrap,
                "-P",
                "-t",
                topic,
                "-z",
                codec,
                "-Z",
                "-K",
                _KEY_SEPARATOR,
            ]
            command += ["-D", "\n", "-X", "message.max.bytes=5000000", "-X", "topic.message.timeout.ms=20000"]
            if partition is not None:
                command += ["-p", str(partition)]
            for name, value in headers:
                command += ["-H", name if value is None else f"{name}={value.decode()}"]
            lines = [(one.key or b"") + _KEY_SEPARATOR.encode() + (one.value or b"") for one in run]
            done = subprocess.run(
                command, input=b"\n".join(lines), capture_output=True, timeout=30, check=False
            )
            assert done.returncode == 0, done.stderr.decode()

    def read(self, counts: Mapping[str, int]) -> dict[str, list[Received]]:
        found: dict[str, list[Received]] = {}
        for topic in counts:
            command = ["kcat", "-b", self.bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J"]
            command += ["-X", "fetch.wait.max.ms=50"]
            done = subprocess.run(command, capture_output=True, timeout=30, check=False)
            assert done.returncode == 0, done.stderr.decode()
            found[topic] = [_received(line) for line in done.stdout.splitlines()]
        return found

    def open_member(self, group: str, topics: Sequence[str], **config: str) -> Member:
        settings = {
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": "300",
            "session.timeout.ms": "6000",
            "auto.commit.interval.ms": "200",
            "fetch.wait.max.ms": "100",
            **config,
        }
        command = ["kcat", "-b", self.bootstrap, "-u", "-J", "-G", group, *topics]
        for name, value in settings.items():
            command += ["-X", f"{name}={value}"]
        return _KcatMember(command)

    def close(self) -> None:
        pass


class _KcatMember:
    """A running `kcat -G`: records on stdout, its assignment in words on stderr."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._lock = threading.Lock()
        self._taken: list[Received] = []
        self._assigned: set[Place] = set()
        self._said: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_records, daemon=True),
            threading.Thread(target=self._read_words, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_records(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._lock:
                self._taken.append(_received(line))

    def _read_words(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            line = raw.decode()
            with self._lock:
                self._said.append(line)
                if match := re.search(r"rebalanced \(memberid .*?\): (assigned|revoked): (.*)", line):
                    places = {(t, int(p)) for t, p in re.findall(r"([^\s,]+) \[(\d+)\]", match[2])}
                    self._assigned = places if match[1] == "assigned" else set()

    def assignment(self) -> set[Place]:
        assert self._process.poll() is None, "".join(self._said)
        with self._lock:
            return set(self._assigned)

    def take(self) -> list[Received]:
        with self._lock:
            taken, self._taken = self._taken, []
        return taken

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        for thread in self._threads:
            thread.join(5)


def _received(line: bytes) -> Received:
    one = json.loads(line)
    names, values = one.get("headers", [])[::2], one.get("headers", [])[1::2]
    return Received(
        one["topic"],
        one["partition"],
        one["offset"],
        _bytes(one["key"]),
        _bytes(one["payload"]),
        tuple(zip(names, map(_bytes, values), strict=True)),
        one["ts"],
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
