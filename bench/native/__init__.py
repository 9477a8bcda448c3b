"""Builds `rdload.c` against the librdkafka of the confluent-kafka wheel, once for content and place."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import confluent_kafka

from bench.apache_kafka import cache_dir

SOURCE = Path(__file__).parent / "rdload.c"


def available() -> str | None:
    """None when the program can be built here, else the reason why not."""
    return None if shutil.which("gcc") else "gcc is not on the PATH"


def program() -> Path:
    """The built program."""
    libraries = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    (library,) = libraries.glob("librdkafka*.so*")
    digest = hashlib.sha256(SOURCE.read_bytes() + str(library).encode()).hexdigest()[:16]
    target = cache_dir() / f"rdload-{digest}"
    if not target.exists():
        command = ["gcc", "-O2", "-Wall", "-Wextra", "-pthread", "-o", str(target), str(SOURCE), str(library)]
        subprocess.run([*command, f"-Wl,-rpath,{libraries}", "-Wl,--allow-shlib-undefined"], check=True)
    return target


def run(*arguments: object, timeout_s: float = 300.0) -> dict[str, Any]:
    """Run it and give what it printed."""
    command = [str(program()), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    if answer.get("failed"):
        raise RuntimeError(f"{' '.join(command)}: {answer['failed']} records failed: {done.stderr[-2000:]}")
    return answer
