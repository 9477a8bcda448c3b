"""A real OpenSearch for a test session: fetched by Maven once, a process of its own on a port of the
system's choice."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.cache import made_once

PROJECT = Path(__file__).parent / "opensearch"


def missing() -> str | None:
    """None when it can run, else why not."""
    programs = [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]
    return f"not on the PATH: {', '.join(programs)}" if programs else None


@contextmanager
def opensearch(folder: Path) -> Iterator[str]:
    """Its address, until the end of the block."""
    (folder / "config").mkdir(parents=True)
    jars = _jars()
    command = [
        "java",
        "-Xmx384m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{jars}/*:{jars}/classes",
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [*command, "LocalOpenSearch", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            said = next((line for line in process.stdout if line.startswith("port ")), "")
            assert said, f"OpenSearch did not start: {(folder / 'log').read_text()[-2000:]}"
            yield f"http://127.0.0.1:{said.split()[1]}"
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _jars() -> Path:
    """The folder of the jars, with our class in `classes`."""
    cache = Path(os.environ.get("MOLDAU_TEST_CACHE", "~/.cache/moldau-tests")).expanduser()
    cache.mkdir(parents=True, exist_ok=True)
    sources = [PROJECT / "pom.xml", PROJECT / "LocalOpenSearch.java"]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    folder = cache / f"opensearch-{digest}"
    with made_once(folder) as absent:
        if absent:
            maven = ["mvn", "-B", "-q", "-f", str(sources[0]), "dependency:copy-dependencies"]
            subprocess.run([*maven, f"-DoutputDirectory={folder}"], check=True, cwd=cache)
            java = ["javac", "-nowarn", "-d", str(folder / "classes"), "-cp", f"{folder}/*"]
            subprocess.run([*java, str(sources[1])], check=True, stderr=subprocess.DEVNULL)
    return folder
