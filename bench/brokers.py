"""The brokers under test, each behind the same four verbs: start, stop, kill, restart on the same data.

A broker's port is reserved for it as long as the object lives (moldau/testing/ports.py), so that no other
broker answers in its place, not even while it is down. Moldau counts as started when it prints its own ready
line, Apache Kafka when its port accepts a connection; the start-up figure measures the first acknowledged
record instead (`bench/figures/startup.py`).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from bench import apache_kafka
from bench.proc import CpuTime, cpu_time, resident_bytes
from moldau.testing.ports import reserve_port

START_TIMEOUT_S = 60.0


def accepts(port: int) -> bool:
    """Whether a program listens on this port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def wait_until(ready: Callable[[], bool], alive: Callable[[], bool] = lambda: True) -> bool:
    """Wait until `ready`; False if `alive` turns false first."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        living = alive()  # asked first: what ends after it was ready was ready
        if ready():
            return True
        if not living:
            return False
        time.sleep(0.02)
    raise TimeoutError(f"not ready after {START_TIMEOUT_S:.0f} s")


class BrokerProcess:
    """One broker process on loopback with a data folder of its own."""

    name = ""

    def __init__(
        self, data_dir: Path | None = None, settings: Mapping[str, str] | None = None, port: int = 0
    ):
        self._owns_data = data_dir is None
        self.data_dir = data_dir or Path(
            tempfile.mkdtemp(prefix="moldau-bench-", dir=os.environ.get("TMPDIR"))
        )
        self.settings = dict(settings or {})
        self._reserved = None if port else reserve_port()
        self.port = port or self._reserved.number
        self.process: subprocess.Popen[bytes] | None = None
        self._output_before = 0  # bytes of output that earlier processes have left

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker does not run"
        return self.process.pid

    @property
    def output(self) -> Path:
        """Where stdout and stderr of the process go."""
        return self.data_dir / "broker.out"

    def log_dir(self) -> Path:
        """The folder that holds the partitions."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """The command line; also does what must be done once before the first start."""
        raise NotImplementedError

    def spawn(self) -> None:
        """Start the process without waiting for it."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = self.command()
        with self.output.open("ab") as output:
            self._output_before = output.tell()
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                # Not a session of its own: Linux shares the cores out by session (autogroup).
                process_group=0,
            )

    def start(self) -> BrokerProcess:
        """Start and wait until clients are served."""
        self.spawn()
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        """Raises with the end of its output when the process ends first."""
        process = self.process
        assert process is not None
        if not wait_until(self.is_ready, lambda: process.poll() is None):
            raise RuntimeError(f"{self.name} ended while starting:\n{self.output.read_text()[-4000:]}")

    def is_ready(self) -> bool:
        """Whether the process that was started last serves clients."""
        return accepts(self.port)

    def said(self) -> str:
        """What the process that was started last has printed so far."""
        with self.output.open("rb") as output:
            output.seek(self._output_before)
            return output.read().decode(errors="replace")

    def stop(self, timeout_s: float = 30.0) -> None:
        """End it by SIGTERM, as an operator would."""
        self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL, 10.0)

    def _end(self, number: int, timeout_s: float) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)

    def cpu(self) -> CpuTime:
        return cpu_time(self.pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def __enter__(self) -> BrokerProcess:
        return self if self.process else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._owns_data:
            shutil.rmtree(self.data_dir, ignore_errors=True)


class ApacheKafka(BrokerProcess):
    """Apache Kafka, KRaft, combined mode, default JVM flags."""

    name = "Apache Kafka"

    def __init__(
        self, data_dir: Path | None = None, settings: Mapping[str, str] | None = None, port: int = 0
    ):
        super().__init__(data_dir, settings, port)
        self._reserved_controller = reserve_port()
        self.controller_port = self._reserved_controller.number

    def log_dir(self) -> Path:
        return self.data_dir / "logs"

    def command(self) -> list[str]:
        properties = apache_kafka.write_properties(
            self.data_dir, self.port, self.controller_port, self.settings
        )
        if not (self.log_dir() / "meta.properties").exists():
            apache_kafka.format_storage(properties)
        return apache_kafka.server_command(properties)


class Moldau(BrokerProcess):
    """Moldau as `moldau serve` runs it."""

    name = "Moldau"

    def log_dir(self) -> Path:
        return self.data_dir / "data"

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "moldau", "serve"]
        command += [
            "--listen",
            f"127.0.0.1:{self.port}",
            "--data",
            str(self.log_dir()),
            "--http",
            "127.0.0.1:0",
        ]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def is_ready(self) -> bool:
        return f"clients connect to {self.address}" in self.said()


KINDS: Mapping[str, type[BrokerProcess]] = {"moldau": Moldau, "kafka": ApacheKafka}
