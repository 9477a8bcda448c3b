"""Spark's Python processes: they connect before they import, and end quietly when nobody listens any more."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from moldau.streams import interpreter, worker_start

SLOW = """
import socket, sys, time
import pyspark.worker_util as util
print("import", flush=True)
sys.stdin.readline()      # as long as the test likes: the machine is busy
with util.get_sock_file_to_executor(timeout=None) as stream:
    stream.write(stream.read(4))
    stream.flush()
    if stream.read(1) == b"":
        raise BrokenPipeError("nobody listens")
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "slow_runner.py").write_text(SLOW)
    return tmp_path


def started(folder: Path, **variables: str) -> subprocess.Popen[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON_WORKER_FACTORY")
    }
    return subprocess.Popen(
        [sys.executable, "-m", "moldau.streams.worker_start", "slow_runner"],
        env={**environment, "PYTHONPATH": str(folder), **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_the_connection_comes_before_the_imports(kind: str, module: Path) -> None:
    if kind == "unix":
        java = socket.socket(socket.AF_UNIX)
        java.bind(str(module / "s"))
        java.listen()
        variables = {worker_start.UNIX_SOCKET: str(module / "s")}
    else:
        java = socket.create_server(("127.0.0.1", 0))
        variables = {worker_start.PORT: str(java.getsockname()[1]), worker_start.SECRET: "sesame"}
    java.settimeout(60)
    with java, started(module, **variables) as process:
        connection, _ = java.accept()  # while the process has not even come to import its module
        with connection, connection.makefile("rwb") as stream:
            if kind == "tcp":
                (length,) = struct.unpack("!i", stream.read(4))
                assert stream.read(length) == b"sesame"
                stream.write(struct.pack("!i", 2) + b"ok")
                stream.flush()
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "import\n"
            process.stdin.write("go\n")
            process.stdin.flush()
            assert struct.unpack("!i", stream.read(4))[0] == process.pid
            stream.write(b"ping")
            stream.flush()
            assert stream.read(4) == b"ping"
        # The connection is closed: the query was stopped.
        _, errors = process.communicate(timeout=60)
        assert errors == ""
        assert process.returncode == 1


def test_a_wrong_secret_ends_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as java:

        def refuse() -> None:
            with java.accept()[0] as connection, connection.makefile("rwb") as stream:
                stream.read(4 + 4)
                stream.write(struct.pack("!i", 3) + b"err")

        thread = threading.Thread(target=refuse)
        thread.start()
        variables = {worker_start.PORT: str(java.getsockname()[1]), worker_start.SECRET: "open"}
        with pytest.raises(ConnectionError, match="did not accept the secret"):
            worker_start.connected(variables)
        thread.join()


def test_without_java_it_is_the_module_and_nothing_else(module: Path) -> None:
    assert worker_start.connected({}) is None
    (module / "slow_runner.py").write_text("import sys; print(__name__, sys.argv[1:]); 1 / 0")
    with started(module) as process:
        out, errors = process.communicate(timeout=60)
    assert out == "__main__ []\n"
    assert "ZeroDivisionError" in errors, "any other error is told"


def test_sparks_own_modules_are_started_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "moldau").mkdir()
    python = interpreter.worker_python(tmp_path)
    script = Path(python).read_text().replace(f"exec {sys.executable}", "echo")
    Path(python).write_text(script)
    environment = {**os.environ, "PYTHONPATH": "/x"}

    def command(*words: str) -> str:
        answer = subprocess.run([python, *words], env=environment, capture_output=True, text=True, check=True)
        return answer.stdout.strip()

    runner = "pyspark.sql.streaming.python_streaming_source_runner"
    assert command("-m", runner, "5") == f"-m moldau.streams.worker_start {runner} 5"
    assert command("-m", "pyspark.daemon", "x") == "-m moldau.streams.worker_daemon x"
    assert command("-m", "pip", "list") == "-m pip list"
    assert command("-c", "pyspark.x") == "-c pyspark.x"
