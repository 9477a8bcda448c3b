"""The session that introductions to Kafka print, typed as they print it, in a folder of `moldau kafka-home`.

Only the ports differ, so that several tests may run at once. The servers run in the foreground, as printed.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_model import eventually
from conftest import KIND

from moldau.ensemble.installation import EnsembleError, installation
from moldau.testing.ports import reserve_port
from moldau.tools.kafka.homes.home import lay_out

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(KIND != "moldau", reason="starts Moldau"),
]
GROUP = "my_first_application"


class Session:
    """A shell in the folder, with its bin/ first on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lay_out(folder)
        self._reserved = {"2181": reserve_port(), "9092": reserve_port()}
        self.ports = {printed: port.number for printed, port in self._reserved.items()}
        for path in (folder / "config").glob("*.properties"):
            path.write_text(self._here(path.read_text()))
        with (folder / "config" / "server.properties").open("a") as settings:
            settings.write("moldau.http.listener=\n")
        self._environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        self._running: list[subprocess.Popen[str]] = []

    def _here(self, text: str) -> str:
        for printed, port in self.ports.items():
            text = text.replace(printed, str(port))
        return text

    def start(self, line: str) -> subprocess.Popen[str]:
        """Type a line whose command runs on."""
        with (self.folder / f"output-{len(self._running)}").open("w") as output:
            words = shlex.split(self._here(line))
            process = subprocess.Popen(
                words, cwd=self.folder, env=self._environment, stdout=output, stderr=output, text=True
            )
        self._running.append(process)
        return process

    def printed(self, process: subprocess.Popen[str]) -> str:
        """What a command that runs on has printed."""
        return (self.folder / f"output-{self._running.index(process)}").read_text()

    def listens(self, printed: str) -> bool:
        """Whether something accepts connections at a port."""
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self.ports[printed])) == 0

    def type(self, line: str, stdin: str = "") -> str:
        """Type a line; return what its command printed, on both streams."""
        done = subprocess.run(
            shlex.split(self._here(line)),
            cwd=self.folder,
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def end(self) -> None:
        """End what still runs."""
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module", autouse=True)
def as_at_a_terminal() -> Iterator[None]:
    """Ctrl-C ends a command. What a shell starts in the background (`make test &`) ignores it, and so does
    all that is started from there.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    pytest.importorskip("kazoo")
    try:
        installation()
    except EnsembleError as problem:
        pytest.skip(str(problem))
    one = Session(tmp_path / "kafka")
    try:
        yield one
    finally:
        one.end()


def offsets(described: str) -> list[int]:
    """The committed offsets in a description of the group."""
    return [int(row) for row in re.findall(rf"^{GROUP} +first_topic +\d+ +(\d+) ", described, re.MULTILINE)]


def test_the_session_of_the_introductions(session: Session) -> None:
    session.start("zookeeper-server-start.sh config/zookeeper.properties")
    eventually(lambda: session.listens("2181"), timeout_s=60)
    session.start("kafka-server-start.sh config/server.properties")
    eventually(lambda: session.listens("9092"), timeout_s=60)

    create = "--topic first_topic --create --partitions 3 --replication-factor 1"
    said = session.type(f"kafka-topics.sh --zookeeper localhost:2181 {create}")
    assert "Created topic first_topic.\n" in said
    assert session.type("kafka-topics.sh --zookeeper localhost:2181 --list").split() == ["first_topic"]
    said = session.type("kafka-topics.sh --zookeeper localhost:2181 --topic first_topic --describe")
    assert (
        len(re.findall(r"\tTopic: first_topic\tPartition: \d\tLeader: 0\tReplicas: 0\tIsr: 0\t", said)) == 3
    )
    session.type(
        "kafka-console-producer.sh --broker-list localhost:9092 --topic first_topic",
        "hello\nawesome course\njust another message :-)\n",
    )

    consumer = session.start(
        f"kafka-console-consumer.sh --bootstrap-server localhost:9092 --group {GROUP} --topic first_topic "
        "--from-beginning"
    )
    expected = {"hello", "awesome course", "just another message :-)"}
    eventually(lambda: expected <= set(session.printed(consumer).splitlines()), timeout_s=60)
    consumer.send_signal(signal.SIGINT)
    assert consumer.wait(60) == 130
    assert "Processed a total of 3 messages" in session.printed(consumer)

    groups = "kafka-consumer-groups.sh --bootstrap-server localhost:9092"
    assert session.type(f"{groups} --list").splitlines() == [GROUP]
    said = session.type(f"{groups} --group {GROUP} --describe")
    assert f"Consumer group '{GROUP}' has no active members." in said
    assert sum(offsets(said)) == 3
    reset = f"{groups} --group {GROUP} --reset-offsets --topic first_topic --execute"
    session.type(f"{groups} --group {GROUP} --reset-offsets --to-earliest --execute --topic first_topic")
    assert offsets(session.type(f"{groups} --group {GROUP} --describe")) == [0, 0, 0]
    again = session.start(
        f"kafka-console-consumer.sh --bootstrap-server localhost:9092 --group {GROUP} --topic first_topic"
    )
    eventually(lambda: expected <= set(session.printed(again).splitlines()), timeout_s=60)
    again.terminate()
    assert again.wait(60) == 143
    # It has committed, and has left its group: the next command need not wait for a session timeout.
    assert sum(offsets(session.type(f"{groups} --group {GROUP} --describe"))) == 3
    for target in ("--to-latest", "--shift-by -2", "--by-duration P1D", "--to-current", "--to-offset 5"):
        assert session.type(f"{reset} {target}").count(GROUP) == 3
    session.type(f"{reset} --to-datetime 2017-08-04T00:00:00.000")
    (session.folder / "offsets.csv").write_text("first_topic,0,0\nfirst_topic,1,0\n")
    said = session.type(f"{groups} --group {GROUP} --reset-offsets --from-file offsets.csv --execute")
    assert said.count(GROUP) == 2
    assert offsets(session.type(f"{groups} --group {GROUP} --describe")) == [0, 0, 0]
    session.type("kafka-topics.sh --bootstrap-server localhost:9092 --topic first_topic --delete")
    assert "first_topic" not in session.type("kafka-topics.sh --bootstrap-server localhost:9092 --list")
