"""Apache Kafka from Maven Central: fetched once into a cache, run as one KRaft node with its default JVM
flags.

The cache lies outside the work tree (`MOLDAU_BENCH_CACHE`, else `~/.cache/moldau-bench`). Java 17 or newer
and Maven must be on the PATH; `available()` says what is missing.

    python -m bench kafka --port 19092       # run one until Ctrl-C
    python -m bench kafka-tool kafka.admin.ConsumerGroupCommand ...   # any tool's main class
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.cache import made_once

HERE = Path(__file__).parent
CLUSTER_ID = "bW9sZGF1LWJlbmNoLWthZg"

# What the scripts of the 4.x release pass when nothing is set in the environment.
HEAP_FLAGS = ("-Xmx1G", "-Xms1G")
JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

# What the release's config/server.properties sets; everything else is Kafka's built-in default.
SERVER_PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}


def cache_dir() -> Path:
    """Where fetched and compiled things live between runs."""
    path = Path(os.environ.get("MOLDAU_BENCH_CACHE", "~/.cache/moldau-bench")).expanduser()
    path.mkdir(parents=True, exist_ok=True)
    return path


def available() -> str | None:
    """None when Apache Kafka can run here, else the reason why it cannot."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return f"{program} is not on the PATH"
    return None


def version() -> str:
    """The release that pom.xml names."""
    match = re.search(r"<kafka\.version>(.*?)<", (HERE / "pom.xml").read_text())
    assert match is not None
    return match[1]


def libraries() -> Path:
    """The folder of jars, fetched by Maven on first use (about 100 MB)."""
    target = cache_dir() / f"apache-kafka-{version()}"
    with made_once(target) as missing:
        if missing:
            command = ["mvn", "-B", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
            subprocess.run([*command, f"-DoutputDirectory={target}"], check=True, cwd=cache_dir())
    return target


def java_command(
    main_class: str, arguments: Sequence[str], flags: Sequence[str] = ("-Xmx256M",)
) -> list[str]:
    """The command line of one of Kafka's main classes."""
    logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
    return ["java", *flags, logging, "-cp", f"{libraries()}/*", main_class, *arguments]


def write_properties(data_dir: Path, port: int, controller_port: int, overrides: Mapping[str, str]) -> Path:
    """The server.properties of a node on loopback."""
    properties = {
        **SERVER_PROPERTIES,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": str(data_dir / "logs"),
        **overrides,
    }
    data_dir.mkdir(parents=True, exist_ok=True)
    path = data_dir / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def format_storage(properties: Path, *, standalone: bool = True) -> None:
    """What `kafka-storage.sh format --standalone` does; harmless on a folder that is formatted already."""
    alone = ["--standalone"] if standalone else []
    arguments = ["format", *alone, "--ignore-formatted", "-t", CLUSTER_ID, "-c", str(properties)]
    subprocess.run(java_command("kafka.tools.StorageTool", arguments), check=True, stdout=subprocess.DEVNULL)


def server_command(properties: Path) -> list[str]:
    """The broker's own command line."""
    return java_command("kafka.Kafka", [str(properties)], [*HEAP_FLAGS, *JVM_FLAGS])
