"""The brokers under test, each behind the same four verbs: start, stop, kill, restart on the same data.

A broker counts as started when a TCP connection is accepted; the start-up figure measures the first
acknowledged record instead (`bench/figures/startup.py`).
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

START_TIMEOUT_S = 60.0


def free_port() -> int:
    """A port of loopback that nobody listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for_port(port: int, alive: Callable[[], bool] = lambda: True) -> bool:
    """Wait until somebody listens on a port of loopback; False when `alive` says that nobody ever will."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return True
        except OSError:
            if not alive():
                return False
            time.sleep(0.02)
    raise TimeoutError(f"nobody listens on port {port} after {START_TIMEOUT_S:.0f} s")


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
        self.port = port or free_port()
        self.process: subprocess.Popen[bytes] | None = None

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
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def start(self) -> BrokerProcess:
        """Start and wait until the port accepts connections."""
        self.spawn()
        self.wait_until_listening()
        return self

    def wait_until_listening(self) -> None:
        """Raises with the end of its output when the process ends first."""
        process = self.process
        assert process is not None
        if not wait_for_port(self.port, lambda: process.poll() is None):
            raise RuntimeError(f"{self.name} ended while starting:\n{self.output.read_text()[-4000:]}")

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
        self.controller_port = free_port()

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


KINDS: Mapping[str, type[BrokerProcess]] = {"moldau": Moldau, "kafka": ApacheKafka}
