"""Spark's own connector to Kafka (`format("kafka")`), fetched once by Maven into the cache.

The version is pom.xml's: the newest that was to be had when this was written, which is not always PySpark's
own. What it needs, and PySpark's jars lack, comes along: Kafka's client, a pool, the library for tokens.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from bench.apache_kafka import cache_dir
from bench.cache import made_once

HERE = Path(__file__).parent
WANTED = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)


def available() -> str | None:
    """None when the connector can be fetched and run here, else the reason why it cannot."""
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    return f"{', '.join(missing)} not on the PATH" if missing else None


def version() -> str:
    """The connector's release."""
    match = re.search(r"<connector\.version>(.*?)<", (HERE / "pom.xml").read_text())
    assert match is not None
    return match[1]


def jars() -> list[Path]:
    """The jars that make `format("kafka")` known to PySpark (about 10 MB)."""
    target = cache_dir() / f"spark-kafka-{version()}"
    with made_once(target) as missing:
        if missing:
            command = ["mvn", "-B", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
            command += [f"-DincludeArtifactIds={','.join(WANTED)}", f"-DoutputDirectory={target}"]
            subprocess.run(command, check=True, cwd=cache_dir())
    return sorted(target.glob("*.jar"))
