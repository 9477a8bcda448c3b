"""`moldau serve` as a service manager sees it.

Ready lines, signals, exit codes, and one sentence for each mistake.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.broker.node import Node
from moldau.broker.server.addresses import AddressError
from moldau.broker.server.listener import Listener
from moldau.common.settings.sources import StaticSettings, load

TIMEOUT_SECONDS = 30
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `moldau serve WORDS...`, on free ports and its own data folder unless the words name others."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*words: str, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        defaults = ["--http", "127.0.0.1:0"]
        for option, value in (("--port", "0"), ("--data", str(tmp_path / "data"))):
            if option not in words and not (option == "--port" and "--listen" in words):
                defaults += [option, value]
        child = subprocess.Popen(
            [sys.executable, "-m", "moldau", "serve", *defaults, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        started.append(child)
        return child

    yield run
    for child in started:
        child.kill()
        child.communicate()


def ready(child: subprocess.Popen[bytes]) -> str:
    assert child.stdout is not None
    line = child.stdout.readline().decode()
    assert line, child.communicate(timeout=TIMEOUT_SECONDS)[1].decode()
    return line


def refused(child: subprocess.Popen[bytes]) -> str:
    """The one sentence of a broker that cannot start."""
    out, err = child.communicate(timeout=TIMEOUT_SECONDS)
    assert child.returncode in (1, 2), err.decode()
    assert out == b""
    text = err.decode()
    assert "Traceback" not in text
    (sentence,) = [line for line in text.splitlines() if line.startswith("moldau: ")]
    return sentence


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(start: Start, number: signal.Signals, tmp_path: Path) -> None:
    child = start()
    assert ready(child).startswith("moldau is ready: clients connect to 127.0.0.1:")
    child.send_signal(number)
    assert child.wait(TIMEOUT_SECONDS) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_the_ready_line_for_programs(start: Start) -> None:
    line = json.loads(ready(start("--json")))
    assert line["event"] == "ready"
    assert line["bootstrap_servers"].startswith("127.0.0.1:")
    assert not line["bootstrap_servers"].endswith(":0")
    assert not line["http_address"].endswith(":0")
    assert line["listeners"] == {"PLAINTEXT": line["bootstrap_servers"]}


def test_the_ready_line_names_every_listener(start: Start) -> None:
    child = start(
        "--set",
        "listeners=INSIDE://127.0.0.1:0,OUTSIDE://localhost:0",
        "--set",
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "--set",
        "inter.broker.listener.name=INSIDE",
    )
    said = re.search(r"connect to 127\.0\.0\.1:(\d+) \(INSIDE\), localhost:(\d+) \(OUTSIDE\);", ready(child))
    assert said is not None
    assert "0" not in said.groups()


def test_logins_from_the_file_that_kafka_opts_names(start: Start, tmp_path: Path) -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    (tmp_path / "jaas.conf").write_text(
        f'KafkaServer {{ {plain} user_bob="s3cret"; }};'
        f'KafkaClient {{ {plain} username="bob" password="s3cret"; }};'
    )
    environment = {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={tmp_path / 'jaas.conf'}"}
    child = start(
        "--set",
        "listeners=CLIENTS://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "--set",
        "listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
        "--set",
        "inter.broker.listener.name=INSIDE",
        "--set",
        "sasl.enabled.mechanisms=PLAIN",
        "--json",
        environment=environment,
    )
    address = json.loads(ready(child))["listeners"]["CLIENTS"]
    client = ["-b", address, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN"]

    def topics(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "moldau", "topics", *words, *client]
        env = {**os.environ, **environment}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)

    made = topics("create", "orders")
    assert "Created topic orders." in made.stdout, made.stderr
    (tmp_path / "jaas.conf").write_text(f'KafkaClient {{ {plain} username="bob" password="wr0ng"; }};')
    refused_client = topics("list")
    assert refused_client.returncode == 1
    assert "wr0ng" not in refused_client.stderr
    assert "authentication" in refused_client.stderr.lower()


def test_settings_from_file_environment_and_options(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=7\nnum.partitions=2\nlog.retention.ms=1000\n")
    child = start(
        "--config",
        str(file),
        "--set",
        "log.retention.ms=3000",
        "--json",
        environment={"KAFKA_LOG_RETENTION_MS": "2000", "KAFKA_NUM_PARTITIONS": "3"},
    )
    line = json.loads(ready(child))
    assert line["node_id"] == 7
    where = ["-b", line["bootstrap_servers"], "--json", "--all"]
    words = [sys.executable, "-m", "moldau", "configs", "describe", "broker", "7", *where]
    rows = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    values = {row["name"]: row["value"] for row in rows}
    assert (values["num.partitions"], values["log.retention.ms"]) == ("3", "3000")


def test_a_taken_port_a_taken_folder_and_a_useless_one(start: Start, tmp_path: Path) -> None:
    address = json.loads(ready(start("--json")))["bootstrap_servers"]
    assert address in refused(start("--listen", address, "--data", str(tmp_path / "other")))
    assert str(tmp_path / "data") in refused(start())
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refused(start("--data", str(tmp_path / "file")))


@pytest.mark.parametrize("which", ["--port", "--http"])
def test_a_start_that_a_taken_port_refuses_leaves_no_folder_behind(
    start: Start, tmp_path: Path, which: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        value = port if which == "--port" else f"127.0.0.1:{port}"
        refusal = refused(start(which, value, "--data", str(tmp_path / "new" / "data")))
    assert port in refusal
    assert not (tmp_path / "new").exists()


async def _start(settings: StaticSettings) -> None:
    await Node(settings).start()


def test_who_listens_between_binding_and_listening_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_late(self: Listener, dispatcher: object) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(Listener, "serve", too_late)
    settings = load(overrides=[f"log.dirs={tmp_path}", "listeners=PLAINTEXT://127.0.0.1:0"], environment={})
    refused = r"cannot listen on 127\.0\.0\.1:\d+: Address already in use; stop"
    with pytest.raises(AddressError, match=refused):
        asyncio.run(_start(settings))


def test_a_wrong_setting_is_named(start: Start) -> None:
    assert "log.retention.ms" in refused(start(environment={"KAFKA_LOG_RETENTION_MS": "soon"}))
    assert "listener" in refused(start("--set", "listeners=SASL_SSL://127.0.0.1:0"))


def test_an_unknown_setting_is_a_warning_that_names_the_nearest(start: Start) -> None:
    child = start("--set", "log.retention.mz=1000")
    ready(child)
    child.terminate()
    assert b"did you mean log.retention.ms" in child.communicate(timeout=TIMEOUT_SECONDS)[1]
