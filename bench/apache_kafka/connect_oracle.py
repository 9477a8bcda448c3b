"""Asks Kafka's own converters, transforms and predicates (ConnectOracle.java), as they come from Maven.

    ask([{"op": "read", "type": "org.apache.kafka.connect.json.JsonConverter", "payload": "MQ=="}])

Answers recorded by tests come from here, so that the tests need no JVM.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from bench.apache_kafka import HERE, cache_dir, libraries


def ask(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer a question; `{"error": ..., "class": ...}` where Kafka throws."""
    lines = "\n".join(json.dumps(each) for each in questions).encode()
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", compiled("ConnectOracle"), "ConnectOracle"]
    done = subprocess.run(command, input=lines, capture_output=True, check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.decode().split("\n") if line]


def compiled(name: str) -> str:
    """The class path of a program of this folder, compiled on first use, with Kafka's jars."""
    jars = f"{libraries()}/*"
    classes = cache_dir() / "connect-classes"
    source = HERE / f"{name}.java"
    made = classes / f"{name}.class"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        command = ["javac", "-nowarn", "-cp", jars, "-d", str(classes), str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    return f"{classes}:{jars}"
