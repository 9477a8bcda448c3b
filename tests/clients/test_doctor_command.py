"""`moldau doctor` against live brokers, as a person runs it: what it says, its exit code, what it leaves."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from moldau.testing import Broker
from moldau.tools.doctor import command
from moldau.tools.doctor.findings import Report


def doctor(*words: str, code: int = 0) -> list[dict[str, Any]]:
    finished = subprocess.run(
        [sys.executable, "-m", "moldau", "doctor", *words, "--json", "--timeout", "30"],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == code, finished.stderr.decode() + finished.stdout.decode()
    assert b"Traceback" not in finished.stderr
    found: list[dict[str, Any]] = json.loads(finished.stdout)["findings"]
    return found


def of(findings: list[dict[str, Any]], check: str) -> dict[str, Any]:
    (found,) = [each for each in findings if each["check"] == check]
    return found


def topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics)


def test_a_healthy_broker_and_nothing_is_left(bootstrap: str) -> None:
    findings = doctor("-b", bootstrap)
    grades = {each["check"]: each["grade"] for each in findings if each["check"] != "lag"}
    assert grades == dict.fromkeys(
        (
            *("connection", "versions", "metadata", "advertised address", "leaders"),
            "in-sync replicas",
            *("produce", "consume", "clock", "coordinator"),
        ),
        "ok",
    )
    assert not [name for name in topics(bootstrap) if name.startswith("moldau-doctor")]


def test_read_only_makes_no_topic(bootstrap: str) -> None:
    before = topics(bootstrap)
    findings = doctor("-b", bootstrap, "--read-only")
    assert of(findings, "round trip")["message"] == "--read-only"
    assert topics(bootstrap) <= before | {"__consumer_offsets"}


def test_a_group_that_nobody_reads_for(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(3):
        producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-g", "enable.auto.commit": False}
    )
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    findings = doctor("-b", bootstrap, "--group", f"{topic}-g", "--topic", topic)
    lag = of(findings, "lag")
    assert lag["grade"] == "warning"
    assert "(empty, 0 members): lag" in lag["message"]
    assert of(findings, "clock")["grade"] == "skipped"


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    findings = doctor("-b", f"127.0.0.1:{port}", code=1)
    assert "refuses the connection" in of(findings, "connection")["message"]
    assert "Connection refused" not in json.dumps(findings)


def test_an_advertised_port_where_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    with Broker(advertised_listeners=f"PLAINTEXT://localhost:{closed}") as broker:
        findings = doctor("-b", broker.bootstrap_servers, code=1)
    failure = of(findings, "advertised address")
    assert f"broker 1 advertises localhost:{closed}" in failure["message"]
    assert "advertised.listeners of broker 1" in failure["remedy"]
    assert of(findings, "the rest")["grade"] == "skipped"


def test_settings_that_cannot_be_meant(bootstrap: str, tmp_path: Path) -> None:
    for words, sentence in (
        (["-X", "no.such.setting=1"], b'No such configuration property: "no.such.setting"'),
        (["--command-config", str(tmp_path / "none.properties")], b"cannot be read"),
        (["-X", "security.protocol=tls"], b"is none of plaintext"),
        (["--read-only", "--topic", "t"], b"drop one"),
    ):
        finished = subprocess.run(
            [sys.executable, "-m", "moldau", "doctor", "-b", bootstrap, *words],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert finished.returncode == 2, finished.stderr
        assert sentence in finished.stderr


@pytest.fixture
def frozen_port() -> Any:
    """A port that accepts and never answers, as a broker that was stopped with SIGSTOP does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        for each in held:
            each.close()


def test_a_broker_that_hangs_is_told_in_time(frozen_port: int) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "moldau", "doctor", "-b", f"127.0.0.1:{frozen_port}", "--timeout", "0.5"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 1
    assert b"accepts the connection and does not answer" in finished.stdout


def test_a_topic_that_does_not_exist_is_named_and_not_made(bootstrap: str) -> None:
    assert (
        "there is no such topic"
        in of(doctor("-b", bootstrap, "--topic", "no-such", code=1), "topic")["message"]
    )
    assert "no-such" not in topics(bootstrap)


def test_no_address_is_no_health() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "moldau", "doctor", "-b", ","], capture_output=True, timeout=120, check=False
    )
    assert finished.returncode == 2
    assert b"the bootstrap address is empty" in finished.stderr


def test_advertised_addresses_are_looked_at_even_if_librdkafka_gets_no_metadata(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_log_in", lambda *_: None)
    report = Report(lambda _: None)
    command.examine(report, bootstrap, {}, 30.0, None, None, read_only=True)
    assert [each.grade.value for each in report.findings if each.check == "advertised address"] == ["ok"]
    assert report.findings[-1].check == "the rest"
