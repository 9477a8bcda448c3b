"""A real Spark cluster on this machine: one master and some workers, as the pip package brings them.

    with SparkCluster(folder) as cluster:
        subprocess.run(["spark-submit", "--master", cluster.master, "program.py"], env=environment())

Each is a Java process of its own on loopback with ports of its own; an executor is a child of its worker.
All of them end with the cluster, for certain: each is the leader of a session, whose processes are looked up
in /proc and killed, and the kernel kills master and workers should the test process die itself.

What they wrote stays in the folder: `*.log` of master and workers, `worker-N/app-.../stderr` of executors.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from moldau.testing.ports import reserve_port

START_TIMEOUT_S = 90.0
DAEMON_MEMORY = "160m"
EXECUTOR_MEMORY_MB = 512
# For every Java that is started here, launchers too: the second compiler and a collector with threads of its
# own pay off after minutes; without them processes that live for seconds start in half the time.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PR_SET_PDEATHSIG = 1
MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"


class SparkCluster:
    """A standalone cluster that lives as long as the `with` block."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1) -> None:
        """So many workers, each with so many cores and the memory of one executor."""
        self.folder = folder
        self._cores = cores
        self.worker_count = workers
        self.master = ""
        self._port, self._web_port = reserve_port(), reserve_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> SparkCluster:
        """Start it and return when all workers are registered."""
        self.folder.mkdir(parents=True, exist_ok=True)
        port = self._port.number
        self.master = f"spark://127.0.0.1:{port}"
        ports = ["--port", str(port), "--webui-port", str(self._web_port.number)]
        self._spawn("master", [MASTER_CLASS, "--host", "127.0.0.1", *ports])
        self._wait(lambda: self._state() is not None, "the master does not answer")
        for number in range(self.worker_count):
            self.start_worker(number)
        self._wait(lambda: self.alive_workers() == self.worker_count, "not all workers have registered")
        return self

    def start_worker(self, number: int) -> None:
        """Start a worker, perhaps again; it registers by and by."""
        name = f"worker-{number}"
        room = ["--cores", str(self._cores), "--memory", f"{EXECUTOR_MEMORY_MB}m"]
        room += ["--work-dir", str(self.folder / name)]
        self._spawn(name, [WORKER_CLASS, "--host", "127.0.0.1", "--webui-port", "0", *room, self.master])

    def kill_worker(self, number: int) -> None:
        """kill -9 of a worker; its executors notice, and end."""
        self._processes[f"worker-{number}"].kill()
        self._processes[f"worker-{number}"].wait()

    def alive_workers(self) -> int:
        """How many workers the master knows."""
        return int((self._state() or {}).get("aliveworkers", 0))

    def executors(self) -> list[int]:
        """The process ids of all executors, of all applications."""
        found = []
        for process in self._processes.values():
            for pid in session_processes(process.pid):
                with contextlib.suppress(OSError):
                    if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found.append(pid)
        return sorted(found)

    def stop(self) -> None:
        """End all of it."""
        for process in self._processes.values():
            for pid in [*session_processes(process.pid), process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()

    def logs(self, lines: int = 40) -> str:
        """The ends of all logs, for whoever looks for the cause of a failure."""
        paths = [*self.folder.glob("*.log"), *self.folder.glob("worker-*/*/*/stderr")]
        ends = ((path, path.read_text(errors="replace").splitlines()[-lines:]) for path in sorted(paths))
        return "\n".join(f"==> {path}\n" + "\n".join(end) for path, end in ends)

    def _spawn(self, name: str, arguments: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(spark_home() / "bin" / "spark-class"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**environment(), "SPARK_DAEMON_MEMORY": DAEMON_MEMORY},
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 (a system call, no lock)
            )

    def _state(self) -> dict[str, object] | None:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._web_port.number}/json/", timeout=5
            ) as answer:
                state: dict[str, object] = json.load(answer)
                return state
        except (OSError, ValueError):
            return None

    def _wait(self, true: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not true():
            fallen = [name for name, process in self._processes.items() if process.poll() is not None]
            if fallen or time.monotonic() > deadline:
                text = self.logs()
                self.stop()
                raise RuntimeError(f"{problem} (ended: {fallen})\n{text}")
            time.sleep(0.1)

    def __enter__(self) -> SparkCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.logs())
        self.stop()


def spark_home() -> Path:
    """The folder of PySpark, which holds a whole Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


def environment() -> dict[str, str]:
    """What a Spark program needs in its environment: Java, our interpreter on both sides, loopback."""
    from moldau.streams.java import java_home

    return {
        **os.environ,
        "JAVA_HOME": java_home(),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
    }


def session_processes(session: int) -> set[int]:
    """The living processes of a session, and of process groups that its members made."""
    return {pid for pid, state, owner in _processes() if owner == session and state != "Z"}


def _processes() -> Iterator[tuple[int, str, int]]:
    """Process id, state and session of every process."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # pid (name) state ppid pgrp session ...; the name may hold blanks, so count from its end
            fields = entry.read_text().rpartition(")")[2].split()
            yield int(entry.parent.name), fields[0], int(fields[3])


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
