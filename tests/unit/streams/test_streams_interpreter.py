"""The Python that Spark's workers get, and its daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from moldau.streams import interpreter, worker_daemon

ASK = (
    "import os, sys, pyspark.daemon; print(pyspark.daemon.__file__, os.environ['PYTHONPATH'], *sys.argv[1:])"
)


def test_workers_take_pyspark_from_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    home = interpreter.packaged_spark()
    assert home is not None
    python = interpreter.worker_python(tmp_path)
    assert python == interpreter.worker_python(tmp_path)
    own = [home / "python" / "lib" / "pyspark.zip", home / "jars" / "spark-core.jar"]
    path = os.pathsep.join(map(str, [*own, "/mine/*", "/mine/b c"]))
    answer = subprocess.run(
        [python, "-c", ASK, "a b", "*"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == f"{home}/daemon.py /mine/*:/mine/b c a b *\n"


def test_daemons_are_ours(tmp_path: Path) -> None:
    python = interpreter.worker_python(tmp_path)
    ended = subprocess.run(
        [python, "-m", "pyspark.daemon", "pyspark.worker"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert len(ended.stdout) == 4, ended.stderr  # the port: it serves
    assert "moldau.streams.worker_daemon" in Path(python).read_text()


def test_another_spark_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert interpreter.worker_python(tmp_path) == sys.executable
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("failure", "code"), [(BrokenPipeError, 1), (ConnectionResetError, 1)])
def test_a_worker_that_nobody_listens_to_leaves_quietly(
    failure: type[Exception], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    def fail(sock: object, authenticated: object) -> int:
        raise failure

    monkeypatch.setattr(worker_daemon, "_worker", fail)
    monkeypatch.setattr(os, "_exit", ended.append)
    worker_daemon.worker(None, True)
    assert ended == [code]

    monkeypatch.setattr(worker_daemon, "_worker", lambda sock, authenticated: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        worker_daemon.worker(None, True)
