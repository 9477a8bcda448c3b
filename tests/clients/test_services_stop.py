"""SIGTERM ends `moldau registry` and `moldau rest` soon, whatever schemas they compare or validate by then.

What the end costs is measured in CPU seconds of the process: a busy machine makes them no more.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pytest
from child_process import child

from moldau.testing import Broker, SchemaRegistry

pytestmark = pytest.mark.client

FIELDS = 12_000
VERSIONS = 12
COMPARISONS = 40
END_CPU_SECONDS = 8.0
"""An idle service's end takes a second of work; what is under way would take a minute and more."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def service(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command in a process of its own, and its URL."""
    command = [sys.executable, "-m", "moldau", *words, "--listen", "http://127.0.0.1:0", "--json"]
    with child(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["addresses"][0]


def stop(process: subprocess.Popen[str]) -> tuple[int, float]:
    """Its exit code, and the CPU seconds that its end took."""
    before = cpu_seconds(process.pid)
    process.send_signal(signal.SIGTERM)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime - before


def wide_record(version: int) -> str:
    fields = [{"name": f"f{number}", "type": ["null", "int"], "default": None} for number in range(FIELDS)]
    return json.dumps({"type": "record", "name": "R", "doc": str(version), "fields": fields})


def posting(stack: ExitStack, requests: list[tuple[str, Any]]) -> None:
    """Send requests side by side, whose answers nobody needs."""

    def send(url: str, body: Any) -> None:
        with suppress(httpx.HTTPError):  # the service has ended
            httpx.post(url, json=body, timeout=None)

    for url, body in requests:
        thread = threading.Thread(target=send, args=(url, body), daemon=True)
        thread.start()
        stack.callback(thread.join)


def wait_for_work(process: subprocess.Popen[str], seconds: float) -> None:
    """Until it has worked so long for the requests."""
    begun = cpu_seconds(process.pid)
    while cpu_seconds(process.pid) < begun + seconds:
        threading.Event().wait(0.05)
        assert process.poll() is None


def test_a_registry_that_compares_ends(broker: Broker) -> None:
    words = ("registry", "-b", broker.bootstrap_servers, "--set", "schema.compatibility.level=none")
    with ExitStack() as stack, service(*words) as (process, url):
        for version in range(VERSIONS):
            body = {"schema": wide_record(version)}
            httpx.post(f"{url}/subjects/wide/versions", json=body, timeout=90).raise_for_status()
        level = {"compatibility": "FULL_TRANSITIVE"}
        httpx.put(f"{url}/config/wide", json=level, timeout=60).raise_for_status()
        paths = ("compatibility/subjects/wide/versions", "subjects/wide/versions")
        requests = [
            (f"{url}/{paths[number % 2]}", {"schema": wide_record(100 + number)})
            for number in range(COMPARISONS)
        ]
        posting(stack, requests)
        wait_for_work(process, 4)
        assert httpx.get(f"{url}/subjects", timeout=60).json() == ["wide"]  # reads go on
        code, seconds = stop(process)
        print(f"registry: {seconds:.1f} CPU seconds")
    assert code == 0
    assert seconds < END_CPU_SECONDS


def test_a_proxy_that_validates_ends(broker: Broker) -> None:
    levels = {"level0": {"type": "string"}}
    for number in range(1, 28):
        below = {"$ref": f"#/definitions/level{number - 1}"}
        levels[f"level{number}"] = {"allOf": [below, below]}  # type: ignore[dict-item]
    costly = json.dumps({"definitions": levels, "$ref": "#/definitions/level27"})
    with SchemaRegistry(broker.bootstrap_servers) as registry, ExitStack() as stack:
        body = {"schemaType": "JSON", "schema": costly}
        answer = httpx.post(f"{registry.url}/subjects/costly-value/versions", json=body, timeout=60)
        schema_id = answer.raise_for_status().json()["id"]
        words = ("rest", "-b", broker.bootstrap_servers, "--set", f"schema.registry.url={registry.url}")
        with service(*words) as (process, url):
            cluster = httpx.get(f"{url}/v3/clusters", timeout=60).json()["data"][0]["metadata"]["self"]
            body = {"topic_name": "costly"}
            httpx.post(f"{cluster}/topics", json=body, timeout=60).raise_for_status()
            accept = {"Accept": "text/event-stream"}
            for _ in range(5):
                tail = httpx.stream("GET", f"{cluster}/topics/costly/records", headers=accept, timeout=None)
                assert next(stack.enter_context(tail).iter_lines()).startswith("retry")
            record = {"value": {"schema_id": schema_id, "data": "text"}}
            posting(stack, [(f"{cluster}/topics/costly/records", record)] * COMPARISONS)
            wait_for_work(process, 4)
            code, seconds = stop(process)
            print(f"rest: {seconds:.1f} CPU seconds")
    assert code == 0
    assert seconds < END_CPU_SECONDS
