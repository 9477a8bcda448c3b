"""The clients of other languages (official Java, KafkaJS), each as one child process that obeys JSON lines.

Both agents speak the same small protocol (java/src/moldau/Agent.java, kafkajs/agent.js), so one class drives
both. What they need is installed once into a cache outside the work tree (`MOLDAU_TEST_CACHE`, else
`~/.cache/moldau-tests`).
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from client_model import CODECS, Member, Message, Place, Received

from bench.cache import made_once

HERE = Path(__file__).parent
CALL_TIMEOUT_S = 60.0


class AgentError(Exception):
    """The client in the child process raised; the text is its exception's."""


class Agent:
    """A child process; `call` may be used from any thread, and calls run side by side in the child."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self._log = log
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._write_lock = threading.Lock()
        threading.Thread(target=self._read_answers, daemon=True).start()

    def call(self, op: str, *, within_s: float = CALL_TIMEOUT_S, **arguments: Any) -> Any:
        """Run one operation; raises AgentError with the client's own error text."""
        number = next(self._numbers)
        future: Future[Any] = Future()
        self._waiting[number] = future
        assert self._process.stdin is not None
        with self._write_lock:
            self._process.stdin.write(json.dumps({"id": number, "op": op, **arguments}) + "\n")
            self._process.stdin.flush()
        return future.result(within_s)

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            future = self._waiting.pop(answer["id"])
            if "error" in answer:
                future.set_exception(AgentError(answer["error"]))
            else:
                future.set_result(answer.get("ok"))
        for future in self._waiting.values():
            future.set_exception(AgentError(f"the agent ended: {self._log.read_text()[-2000:]}"))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()


class AgentClient:
    """A client that lives in an agent."""

    codecs = CODECS

    def __init__(self, name: str, agent: Agent) -> None:
        self.name = name
        self.agent = agent
        self.call = agent.call

    def produce(self, topic: str, messages: Sequence[Message], codec: str = "none", **config: Any) -> None:
        self.call("produce", topic=topic, codec=codec, records=[_as_json(one) for one in messages], **config)

    def read(self, counts: Mapping[str, int]) -> dict[str, list[Received]]:
        found = self.call("read", counts=dict(counts))
        return {topic: [_from_json(one) for one in records] for topic, records in found.items()}

    def open_member(self, group: str, topics: Sequence[str], **config: str) -> Member:
        if self.name.startswith("java") and "group.protocol" not in config:
            config = {"heartbeat.interval.ms": "300", "session.timeout.ms": "6000", **config}
        return AgentMember(self.agent, group=group, topics=list(topics), config=config)

    def close(self) -> None:
        self.agent.close()


class AgentMember:
    """A group member in an agent."""

    _numbers = itertools.count(1)

    def __init__(self, agent: Agent, **request: Any) -> None:
        self._agent = agent
        self._name = f"member-{next(self._numbers)}"
        agent.call("open", member=self._name, **request)

    def assignment(self) -> set[Place]:
        return {(topic, partition) for topic, partition in self._agent.call("assignment", member=self._name)}

    def replicas(self) -> list[tuple[int, int]]:
        """Of each partition the replica that it reads from, -1 for the leader (Java only)."""
        return [
            (partition, replica)
            for partition, replica in self._agent.call("read_replicas", member=self._name)
        ]

    def take(self) -> list[Received]:
        return [_from_json(one) for one in self._agent.call("take", member=self._name)]

    def close(self) -> None:
        self._agent.call("close", member=self._name)


def cache_dir() -> Path:
    """Where fetched packages and compiled classes stay between runs."""
    path = Path(os.environ.get("MOLDAU_TEST_CACHE", "~/.cache/moldau-tests")).expanduser()
    path.mkdir(parents=True, exist_ok=True)
    return path


def java_missing() -> str | None:
    """None when the Java client can run, else why not."""
    missing = [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]
    return f"not on the PATH: {', '.join(missing)}" if missing else None


def kafkajs_missing() -> str | None:
    """None when KafkaJS can run, else why not."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    return f"not on the PATH: {', '.join(missing)}" if missing else None


def java_command(bootstrap: str, old_version: str = "") -> list[str]:
    """The command line of the agent."""
    return [*java_program("moldau.Agent", old_version), bootstrap]


def java_program(main: str, old_version: str = "") -> list[str]:
    """Fetch the jars and compile the sources, each once for their content; the command line of a main class.

    `old_version` of kafka-clients runs what was compiled against the newest: it has all that producing and
    consuming need.
    """
    project = HERE / "java"
    pom = project / "pom.xml"
    dependencies = _java_dependencies(pom)
    sources = sorted((project / "src").rglob("*.java"))
    classes = cache_dir() / f"java-classes-{_digest(pom, *sources)}"
    with made_once(classes) as missing:
        if missing:
            command = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{dependencies}/*"]
            subprocess.run([*command, *map(str, sources)], check=True, stderr=subprocess.DEVNULL)
    if old_version:
        dependencies = _java_dependencies(pom, old_version)
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *flags, "-cp", f"{dependencies}/*:{classes}", main]


def _java_dependencies(pom: Path, version: str = "") -> Path:
    """The folder of the jars, of a version of kafka-clients other than the project's where one is named."""
    folder = cache_dir() / f"java-{_digest(pom)}{version and '-' + version}"
    with made_once(folder) as missing:
        if missing:
            command = ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
            chosen = [f"-Dkafka.version={version}"] if version else []
            subprocess.run([*command, *chosen, f"-DoutputDirectory={folder}"], check=True, cwd=cache_dir())
    return folder


def kafkajs_command(bootstrap: str) -> list[str]:
    """Install the npm packages once for their list, and give the command line."""
    package, agent = HERE / "kafkajs" / "package.json", HERE / "kafkajs" / "agent.js"
    folder = cache_dir() / f"kafkajs-{_digest(package, agent)}"
    with made_once(folder) as missing:
        if missing:
            shutil.copy(package, folder)
            shutil.copy(agent, folder)  # beside its node_modules, where node looks for them
            command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return ["node", str(folder / "agent.js"), bootstrap]


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _as_json(one: Message) -> dict[str, Any]:
    return {
        "key": _text(one.key),
        "value": _text(one.value),
        "headers": [[name, _text(value)] for name, value in one.headers],
        "partition": one.partition,
        "timestamp_ms": one.timestamp_ms,
    }


def _from_json(one: Mapping[str, Any]) -> Received:
    headers = tuple((name, _bytes(value)) for name, value in one["headers"])
    place = (one["topic"], one["partition"], one["offset"])
    return Received(*place, _bytes(one["key"]), _bytes(one["value"]), headers, one["timestamp_ms"])


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
