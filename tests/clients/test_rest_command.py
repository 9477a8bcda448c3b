"""`moldau rest` as a program: the ready line, its end, and what is said of wrong settings."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from child_process import child

from moldau.testing import Broker

pytestmark = pytest.mark.client

COMMAND = [sys.executable, "-m", "moldau", "rest"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def test_a_proxy_from_its_start_to_its_end(broker: Broker, tmp_path: Path) -> None:
    config = tmp_path / "kafka-rest.properties"
    config.write_text(
        f"bootstrap.servers={broker.bootstrap_servers}\nlisteners=http://127.0.0.1:1\n"
        "api.endpoints.blocklist=api.v3.acls.*,api.v3.topics.delete\nclient.client.id=me\n"
    )
    words = ["--config", str(config), "--listen", "http://127.0.0.1:0", "--json"]
    pipe = subprocess.PIPE
    with child([*COMMAND, *words], stdout=pipe, stderr=pipe, text=True) as program:
        try:
            assert program.stdout is not None
            ready = json.loads(program.stdout.readline())
            assert ready["bootstrap_servers"] == broker.bootstrap_servers
            (url,) = ready["addresses"]
            cluster = httpx.get(f"{url}/v3/clusters", timeout=60).json()["data"][0]["metadata"]["self"]
            assert httpx.get(f"{cluster}/topics", timeout=60).status_code == 200
            assert httpx.get(f"{cluster}/acls", timeout=60).status_code == 404  # switched off
            assert httpx.delete(f"{cluster}/topics/a", timeout=60).status_code == 405
            while not httpx.get(f"{url}/health", timeout=60).json()["ready"]:
                pass
            headers = {"Content-Type": "application/json"}
            content = b'{"topic_name": "tailed"}'
            assert (
                httpx.post(f"{cluster}/topics", content=content, headers=headers, timeout=60).status_code
                == 201
            )
            tail = {"Accept": "text/event-stream"}
            with httpx.stream("GET", f"{cluster}/topics/tailed/records", headers=tail, timeout=90) as events:
                lines = events.iter_lines()
                assert next(lines).startswith("retry")
                program.send_signal(signal.SIGTERM)
                assert list(lines) == [""]  # an end, and no broken connection
        finally:
            program.send_signal(signal.SIGTERM)
        assert program.wait(90) == 0
        assert program.stderr is not None
        assert "Traceback" not in program.stderr.read()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--listen", "nonsense"], 2, "is no address"),
        (["--set", "consumer.threads=many"], 2, "consumer.threads"),
        (["--set", "schema.registry.url=ftp://a"], 2, "schema.registry.url"),
        (["--config", "no-such-file"], 2, "cannot be read"),
        (["-X", "security.protocol=NONE"], 2, "security.protocol"),
        (["-X", "acks=seven"], 2, "acks"),
        (["-b", "nowhere"], 2, "host:port"),
    ],
)
def test_a_wrong_setting_is_one_sentence(words: list[str], code: int, said: str) -> None:
    ended = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=90, check=False)
    assert ended.returncode == code
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_address_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        words = [*COMMAND, "--listen", address, "-b", "127.0.0.1:1"]
        ended = subprocess.run(
            words, capture_output=True, text=True, timeout=90, check=False, env={**os.environ}
        )
    assert ended.returncode == 1
    assert "cannot be listened on" in ended.stderr
    assert "Traceback" not in ended.stderr
