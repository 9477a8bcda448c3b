"""Connect's workers side by side, ours and Kafka's, on one Moldau broker: `python -m bench.connect_files`.

A file of lines into a topic by FileStreamSource, the topic into a file by FileStreamSink, both with string
converters: records a second, CPU seconds of the worker a million. Then what a worker holds with one idle
connector and with twenty. The systems take turns; Kafka's comes from Maven (Java 17, mvn on the PATH).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.apache_kafka import cache_dir
from bench.cache import made_once
from bench.proc import cpu_time, resident_bytes
from moldau.testing import Broker
from moldau.testing.ports import reserve_port

POM = Path(__file__).parent / "apache_connect" / "pom.xml"
LINE = b"x" * 99 + b"\n"
FILE = "org.apache.kafka.connect.file.FileStream"
STRING = "org.apache.kafka.connect.storage.StringConverter"
SECONDS_MAX = 300.0


def kafka_jars() -> Path:
    """The folder of jars, fetched once."""
    target = cache_dir() / "apache-connect-4.3.1"
    with made_once(target) as missing:
        if missing:
            command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
            subprocess.run([*command, f"-DoutputDirectory={target}"], check=True, cwd=cache_dir())
    return target


def command_of(system: str, properties: Path) -> list[str]:
    """A distributed worker's command line."""
    if system == "moldau":
        return [sys.executable, "-m", "moldau", "connect", "run", str(properties)]
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return ["java", "-Xms256M", "-Xmx2G", "-cp", f"{kafka_jars()}/*", main, str(properties)]


class Worker:
    """A running worker, asked over REST."""

    def __init__(self, pid: int, url: str) -> None:
        self.pid = pid
        self._url = url

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Make a connector; again while work is distributed."""

        def made() -> bool:
            try:
                self.ask("POST", "/connectors", {"name": name, "config": config})
            except urllib.error.HTTPError as refused:
                if refused.code == 409:
                    return False
                raise
            return True

        until(made)


def until(done: Callable[[], bool]) -> None:
    """Wait; TimeoutError."""
    deadline = time.monotonic() + SECONDS_MAX
    while not done():
        if time.monotonic() >= deadline:
            raise TimeoutError
        time.sleep(0.05)


@contextmanager
def worker(system: str, broker: Broker, folder: Path) -> Iterator[Worker]:
    """A worker of its own group."""
    port = reserve_port()
    lines = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": system,
        "key.converter": STRING,
        "value.converter": STRING,
        "listeners": f"http://127.0.0.1:{port.number}",
        "offset.flush.interval.ms": "1000",
        "exactly.once.source.support": "enabled",
        "plugin.discovery": "service_load",
    }
    for each in ("config", "offset", "status"):
        lines[f"{each}.storage.topic"] = f"{system}-{each}"
        lines[f"{each}.storage.replication.factor"] = "1"
    properties = folder / f"{system}.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    with (folder / f"{system}.log").open("ab") as log:
        process = subprocess.Popen(command_of(system, properties), stdout=log, stderr=log)
    try:
        made = Worker(process.pid, f"http://127.0.0.1:{port.number}")

        def answers() -> bool:
            assert process.poll() is None, (folder / f"{system}.log").read_text()[-2000:]
            try:
                made.ask("GET", "/connectors")
            except (OSError, urllib.error.HTTPError):
                return False
            return True

        until(answers)
        yield made
    finally:
        process.terminate()
        process.wait(60)
        port.release()


def end_of(broker: Broker, topic: str) -> int:
    """How many records (and markers) a topic of one partition has."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "bench"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)[1])
    except KafkaException:
        return 0
    finally:
        consumer.close()


def measured(pid: int, count: int, done: Callable[[], bool]) -> tuple[float, float]:
    """Records a second, and CPU seconds a million."""
    cpu, began = cpu_time(pid), time.monotonic()
    until(done)
    seconds = time.monotonic() - began
    return count / seconds, (cpu_time(pid) - cpu).total_s * 1e6 / count


def run(system: str, broker: Broker, folder: Path, count: int) -> dict[str, float]:
    """All figures of one system, once."""
    source, target = folder / f"{system}.in", folder / f"{system}.out"
    source.write_bytes(LINE * count)
    topic = f"{system}-lines-{time.time_ns()}"
    found: dict[str, float] = {}
    with worker(system, broker, folder) as made:
        found["idle, MB"] = resident_bytes(made.pid) / 1e6
        cpu = cpu_time(made.pid)
        time.sleep(10)
        found["idle, CPU ms a second"] = (cpu_time(made.pid) - cpu).total_s * 100
        made.create(
            "source", {"connector.class": f"{FILE}SourceConnector", "file": str(source), "topic": topic}
        )
        rate, cost = measured(made.pid, count, lambda: end_of(broker, topic) >= count)
        found |= {"source, records/s": rate, "source, CPU s a million": cost}
        made.ask("DELETE", "/connectors/source")
        made.create("sink", {"connector.class": f"{FILE}SinkConnector", "file": str(target), "topics": topic})
        size = len(LINE) * count
        rate, cost = measured(made.pid, count, lambda: target.exists() and target.stat().st_size >= size)
        found |= {"sink, records/s": rate, "sink, CPU s a million": cost}
        made.ask("DELETE", "/connectors/sink")
    source.unlink()
    target.unlink()
    with worker(system, broker, folder) as made:
        for number in range(20):
            small = folder / f"{system}-{number}.in"
            small.write_bytes(b"one line\n")
            config = {"connector.class": f"{FILE}SourceConnector", "file": str(small), "topic": topic}
            made.create(f"idle-{number}", config)

        def running() -> bool:
            states = made.ask("GET", "/connectors?expand=status").values()
            tasks = [task for each in states for task in each["status"]["tasks"]]
            return len(tasks) == 20 and all(task["state"] == "RUNNING" for task in tasks)

        until(running)
        time.sleep(5)
        cpu = cpu_time(made.pid)
        time.sleep(10)
        found["20 idle connectors, MB"] = resident_bytes(made.pid) / 1e6
        found["20 idle connectors, CPU ms a second"] = (cpu_time(made.pid) - cpu).total_s * 100
        for number in range(20):
            made.ask("DELETE", f"/connectors/idle-{number}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500_000)
    parser.add_argument("--systems", default="moldau,kafka")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="moldau-bench-"))
    systems = options.systems.split(",")
    with Broker(process=True) as broker:
        results = {system: run(system, broker, folder, options.count) for system in systems}
    print(f"| | {' | '.join(systems)} |\n| --- |{' ---: |' * len(systems)}")
    for name in results[systems[0]]:
        print(f"| {name} | {' | '.join(f'{results[system][name]:,.1f}' for system in systems)} |")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
