"""kafka-e2e-latency: round trips from a producer to a consumer, as perf/round_trips.py measures them.

Kafka 4's named options, and the five or six words of all versions before:

    kafka-e2e-latency localhost:9092 topic 10000 1 100 [settings file]
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.topics import create_topic
from moldau.tools.kafka.lines.options import Given, Option, Parser
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries import reaching
from moldau.tools.kafka.queries.reaching import librdkafka
from moldau.tools.shared.errors import explain_kafka_failure

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

POSITIONS = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config")
_EVERY = 1000

PARSER = Parser(
    "kafka-e2e-latency",
    "Measures the time from a producer to a consumer, one record after the other.",
    [
        Option("bootstrap-server", "bootstrap-server", "A broker.", required=True),
        Option("topic", "topic-name", "The topic; it is made if it does not exist.", required=True),
        Option("num-records", "count", "How many records.", kind=int, required=True),
        Option("producer-acks", "producer-acks", "1 or all.", required=True),
        Option("record-size", "bytes", "The size of each value.", kind=int, required=True),
        Option("command-config", "config-file", "A file of client settings."),
        Option("record-key-size", "bytes", "The size of each key; 0: none.", kind=int, default=0),
        Option("num-headers", "count", "How many headers.", kind=int, default=0),
        Option("record-header-key-size", "bytes", "The size of a header's name.", kind=int, default=0),
        Option("record-header-size", "bytes", "The size of a header's value; -1: null.", kind=int, default=0),
    ],
)


def main(words: Sequence[str]) -> int:
    """Measure, and print what Kafka's tool prints. Returns the exit code."""
    if words and not any(each.startswith("--") for each in words):
        words = _named(words)
    elif words in (["--help"], ["--version"]) or not words:
        PARSER.parse(words)
    given = PARSER.parse(words)
    PARSER.require_all(given)
    return _measure(given)


def _named(words: Sequence[str]) -> list[str]:
    if len(words) not in (5, 6):
        raise CommandLineError(
            f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got "
            f"{len(words)}. Usage: "
            "bootstrap-server topic num-records producer-acks record-size [optional] command-config"
        )
    print(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka "
        "5.0. Please use named "
        "arguments instead: --bootstrap-server, --topic, --num-records, --producer-acks, --record-size, "
        "--command-config"
    )
    named: list[str] = []
    for name, word in zip(POSITIONS, words, strict=False):
        named += [f"--{name}", word]
    return named


def _measure(given: Given) -> int:
    from moldau.tools.commands.perf.round_trips import Probe, measure

    rounds, size = _positive(given, "num-records"), _positive(given, "record-size")
    acks = given.text("producer-acks") or ""
    if acks not in ("1", "all"):
        raise CommandLineError(
            "Invalid value for --producer-acks. Latency testing requires synchronous "
            "acknowledgement. Please use '1' "
            "or 'all'.",
            PARSER.line(["--producer-acks", "all"]),
        )
    headers = (given.number("num-headers") or 0, given.number("record-header-key-size") or 0)
    header_bytes = given.number("record-header-size") or 0
    key_bytes = given.number("record-key-size") or 0
    letters = random.Random(0)
    probe = Probe(
        value=lambda: _letters(letters, size),
        key=(lambda: _letters(letters, key_bytes)) if key_bytes else None,
        headers=(
            lambda: [
                (
                    _letters(letters, headers[1]).decode(),
                    None if header_bytes == -1 else _letters(letters, header_bytes),
                )
                for _ in range(headers[0])
            ]
        )
        if headers[0]
        else None,
    )
    topic = given.text("topic") or ""
    settings = librdkafka(given)
    with reaching.cluster(given) as cluster:
        _ensure_topic(cluster, topic)

    def report(number: int, latency_ms: float) -> None:
        if number % _EVERY == 0:
            print(f"{number}\t{latency_ms}")
            sys.stdout.flush()

    group = f"test-group-{os.getpid()}"
    found = measure(topic, rounds, probe, settings, acks, report, group)
    shares = [int(found.percentile_ms(share)) for share in (0.5, 0.99, 0.999)]
    print(f"Avg latency: {found.mean_ms:.4f} ms")
    print(f"Percentiles: 50th = {shares[0]}, 99th = {shares[1]}, 99.9th = {shares[2]}")
    return 0


def _positive(given: Given, name: str) -> int:
    number = given.number(name) or 0
    if number < 1:
        raise CommandLineError(f"Value for --{name} must be a positive integer.")
    return number


def _letters(source: random.Random, size_bytes: int) -> bytes:
    return bytes(source.choices(range(65, 91), k=size_bytes))


def _ensure_topic(cluster: Cluster, topic: str) -> None:
    """Make the topic with one partition if it does not exist, as Kafka's tool does."""
    if topic in cluster.topics():
        return
    print(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
    try:
        create_topic(cluster, topic, partitions=1, replication_factor=1)
    except KafkaProblem as problem:
        raise ToolError(explain_kafka_failure(problem) or str(problem)) from None
