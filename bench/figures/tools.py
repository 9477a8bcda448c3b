"""Kafka's command lines served by Moldau beside Kafka's own, against the same kind of broker: how long each
takes.

Ten starts of each in turn, the median: wall-clock and CPU seconds of the whole process. Then the load
generator:
records of 100 bytes as fast as each sends them, and its CPU.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import apache_kafka
from bench.brokers import BrokerProcess
from bench.figures import Figure, Row, Start, Subject, Values

STARTS = 10
RECORDS = 2_000_000
RECORD_BYTES = 100
TIMEOUT_S = 300.0
TOPIC = "tools"
_TOOLS = "org.apache.kafka.tools"
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "kafka-topics": (f"{_TOOLS}.TopicCommand", ("{server}", "--describe")),
    "kafka-consumer-groups": (f"{_TOOLS}.consumer.group.ConsumerGroupCommand", ("{server}", "--list")),
    "kafka-configs": ("kafka.admin.ConfigCommand", ("{server}", "--entity-type", "topics", "--describe")),
    "kafka-get-offsets": (f"{_TOOLS}.GetOffsetShell", ("{server}", "--topic", TOPIC)),
    "kafka-log-dirs": (f"{_TOOLS}.LogDirsCommand", ("{server}", "--describe")),
    "kafka-leader-election": (
        f"{_TOOLS}.LeaderElectionCommand",
        ("{server}", "--election-type", "preferred", "--all-topic-partitions"),
    ),
    "kafka-reassign-partitions": (f"{_TOOLS}.reassign.ReassignPartitionsCommand", ("{server}", "--list")),
    "kafka-transactions": (f"{_TOOLS}.TransactionsCommand", ("{server}", "list")),
    "kafka-features": (f"{_TOOLS}.FeatureCommand", ("{server}", "describe")),
    "kafka-broker-api-versions": (f"{_TOOLS}.BrokerApiVersionsCommand", ("{server}",)),
    "kafka-storage": ("kafka.tools.StorageTool", ("random-uuid",)),
    "kafka-console-consumer": (
        f"{_TOOLS}.consumer.ConsoleConsumer",
        ("{server}", "--topic", TOPIC, "--partition", "0", "--offset", "0", "--max-messages", "1"),
    ),
}
Command = Callable[[str, str, Sequence[str]], list[str]]


def ours(name: str, main_class: str, words: Sequence[str]) -> list[str]:
    """The command line of a script that `moldau kafka-home` lays out."""
    return [sys.executable, "-P", "-m", "moldau.tools.kafka", name, *words]


def kafkas(name: str, main_class: str, words: Sequence[str]) -> list[str]:
    """The command line of Kafka's script, with its heap."""
    return apache_kafka.java_command(main_class, words, ["-Xmx256M"])


def _starts(command: Command) -> Callable[[Start], Values]:
    def measure(start: Start) -> Values:
        with start() as broker:
            _fill(broker)
            values: dict[str, float] = {"starts": STARTS}
            for name, (main_class, words) in COMMANDS.items():
                line = command(name, main_class, _filled(words, broker))
                if command is ours and not _is_served(name):
                    continue
                runs = [_timed(line) for _ in range(STARTS)]
                values[f"{name}_s"] = statistics.median(wall for wall, _ in runs)
                values[f"{name}_cpu_s"] = statistics.median(cpu for _, cpu in runs)
            return values

    return measure


def _is_served(name: str) -> bool:
    from moldau.tools.kafka.tools import TOOLS

    return name in TOOLS


def _filled(words: Sequence[str], broker: BrokerProcess) -> list[str]:
    found: list[str] = []
    for word in words:
        found += ["--bootstrap-server", broker.address] if word == "{server}" else [word]
    return found


def _fill(broker: BrokerProcess) -> None:
    """A topic with a record."""
    words = ["--topic", TOPIC, "--num-records", "1", "--record-size", "10", "--throughput", "-1"]
    line = ours("kafka-producer-perf-test", "", ["--bootstrap-server", broker.address, *words])
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)


def _timed(line: Sequence[str]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a process that ends well."""
    before, began = os.times(), time.monotonic()
    done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    wall_s, after = time.monotonic() - began, os.times()
    assert done.returncode == 0, f"{' '.join(line)}: {done.stdout}{done.stderr}"
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return wall_s, cpu_s


def _load(command: Command) -> Callable[[Start], Values]:
    def measure(start: Start) -> Values:
        with start() as broker:
            _fill(broker)
            words = ["--topic", TOPIC, "--record-size", str(RECORD_BYTES), "--throughput", "-1"]
            server = ["--bootstrap-server", broker.address]
            main_class = f"{_TOOLS}.ProducerPerformance"
            line = command(
                "kafka-producer-perf-test", main_class, [*server, *words, "--num-records", str(RECORDS)]
            )
            before = os.times()
            done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
            after = os.times()
            summary = done.stdout.splitlines()[-1]
            rate = re.search(r"([\d.]+) records/sec", summary)
            latency = re.search(r"([\d.]+) ms avg latency.* (\d+) ms 99th", summary)
            assert rate is not None, summary
            assert latency is not None, summary
            cpu_s = (
                after.children_user + after.children_system - before.children_user - before.children_system
            )
            return {
                "records_per_s": float(rate[1]),
                "cpu_us": cpu_s / RECORDS * 1e6,
                "mean_ms": float(latency[1]),
                "p99_ms": float(latency[2]),
            }

    return measure


def _friendly(start: Start) -> Values:
    """`moldau perf produce`, with the client as it comes."""
    with start() as broker, tempfile.TemporaryDirectory() as folder:
        _fill(broker)
        output = Path(folder) / "out"
        words = ["perf", "produce", TOPIC, "-n", str(RECORDS), "--size", str(RECORD_BYTES), "--json"]
        before = os.times()
        with output.open("w") as file:
            subprocess.run(
                [sys.executable, "-m", "moldau", *words, "-b", broker.address],
                check=True,
                stdout=file,
                timeout=TIMEOUT_S,
            )
        after = os.times()
        found = json.loads(output.read_text())
        cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
        return {
            "records_per_s": found["records_per_second"],
            "cpu_us": cpu_s / RECORDS * 1e6,
            "mean_ms": found["latency_ms"]["mean"],
            "p99_ms": found["latency_ms"]["p99"],
        }


START = Figure(
    "tools-start",
    "Kafka's command lines from start to end",
    None,
    (
        Row("starts", "starts of each, of which the median counts", "", 0),
        *(
            row
            for name in COMMANDS
            for row in (
                Row(f"{name}_s", name, "s", 2, "a fifth of Kafka's"),
                Row(f"{name}_cpu_s", "CPU", "s", 2),
            )
        ),
    ),
    note="Both against a Moldau broker with one topic; Kafka's with the heap of its scripts (256 MiB).",
    subjects={
        "moldau": Subject("Moldau's tool", _starts(ours)),
        "kafka": Subject("Kafka's tool", _starts(kafkas), apache_kafka.version),
    },
)
LOAD = Figure(
    "tools-produce",
    f"kafka-producer-perf-test, {RECORDS // 1_000_000} million records of {RECORD_BYTES} bytes, "
    "one partition",
    None,
    (
        Row("records_per_s", "records a second", "1/s", 0),
        Row("cpu_us", "the client's CPU for each record", "µs", 2),
        Row("mean_ms", "mean latency at full speed", "ms", 1),
        Row("p99_ms", "99 % within", "ms", 0),
    ),
    note=(
        "All against a Moldau broker on the same two cores, acks=all, idempotent, as each "
        "client comes (batches of "
        "16 KiB in Java's, 1 MB in librdkafka)."
    ),
    subjects={
        "moldau": Subject("Moldau's kafka-producer-perf-test", _load(ours)),
        "kafka": Subject("Kafka's", _load(kafkas), apache_kafka.version),
        "perf": Subject("moldau perf produce", _friendly),
    },
)
