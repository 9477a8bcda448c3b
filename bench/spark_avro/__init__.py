"""Spark's own functions for Avro, fetched once by Maven into the cache; the rest is in PySpark's jars."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from bench.apache_kafka import cache_dir
from bench.cache import made_once

HERE = Path(__file__).parent


def version() -> str:
    """The release of spark-avro."""
    match = re.search(r"<avro\.version>(.*?)<", (HERE / "pom.xml").read_text())
    assert match is not None
    return match[1]


def jars() -> list[Path]:
    """The jar with from_avro and to_avro."""
    target = cache_dir() / f"spark-avro-{version()}"
    with made_once(target) as missing:
        if missing:
            command = ["mvn", "-B", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
            subprocess.run([*command, f"-DoutputDirectory={target}"], check=True, cwd=cache_dir())
    return sorted(target.glob("*.jar"))
