"""A Spark driver as a client of a round: several processes, any of which may be killed.

    python -+- java (the driver's JVM) --- python (a daemon, and workers that it forks)

All are one session of the system, so that they are found whoever their parents are. A JVM whose Python
process is killed notices that its input has ended, and ends; until then it goes on with its micro-batch
beside the next driver.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pipelines.cluster import session_processes

from torture import HERE, ROOT
from torture.clients import ClientProcess

# Spark gives a Python process ten seconds to report, and has no setting for it.
TOO_SLOW = b"Python worker failed to connect back"
# Every task of a driver fails while its executor reads a HashMap that has fewer entries than it says: two
# threads of the driver put into it at once (Spark shares a Python function's environment among queries).
TORN_TASK = b"java.io.OptionalDataException"
_MESSAGES = re.compile(rb"whose messages go to (\S+\.log)")


class SparkDriver(ClientProcess):
    """A driver, again and again on the same checkpoints."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        super().__init__(name, "", "", folder)
        self._command = list(command)
        self._environment = dict(environment)
        self._past: list[int] = []
        self._log_before = 0

    def start(self) -> None:
        path = os.pathsep.join(map(str, (HERE.parent, ROOT)))
        with self.log.open("ab") as log:
            self._log_before = log.tell()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self._environment, "PYTHONPATH": path},
                start_new_session=True,
            )
        self._past.append(self._process.pid)

    def kill(self) -> bool:
        """kill -9 of everything at once."""
        was_there = self._process is not None and self._process.poll() is None
        for pid in self.past_processes():
            _kill(pid)
        if self._process is not None:
            self._process.wait()
        self._process = None
        self.deaths += was_there
        return was_there

    def kill_python(self) -> bool:
        """kill -9 of the driver's Python process alone."""
        self.deaths += 1
        return super().kill()

    def kill_java(self) -> bool:
        """kill -9 of its JVM alone."""
        return self._kill_first(lambda command: b"org.apache.spark.deploy.SparkSubmit" in command)

    def kill_worker(self, choice: float) -> bool:
        """kill -9 of one of its Python workers; `choice` in [0, 1) says which."""
        return self._kill_first(lambda command: b"pyspark" in command and b"java" not in command, choice)

    def too_slow(self) -> bool:
        """Whether this life of it met a machine too busy for Spark, or a task that Spark itself garbled: no
        faults of what is tested. Another life has to do it.
        """
        with self.log.open("rb") as log:
            log.seek(self._log_before)
            said = log.read()
        messages = [Path(os.fsdecode(one)) for one in _MESSAGES.findall(said)]
        return TOO_SLOW in said or any(one.exists() and TORN_TASK in one.read_bytes() for one in messages)

    def past_processes(self) -> list[int]:
        """Processes of this driver and of those before it."""
        return sorted(one for session in self._past for one in session_processes(session))

    def _kill_first(self, is_it: Callable[[bytes], bool], choice: float = 0.0) -> bool:
        if self._process is None:
            return False
        found = []
        for pid in session_processes(self._process.pid) - {self._process.pid}:
            with contextlib.suppress(OSError):
                if is_it(Path(f"/proc/{pid}/cmdline").read_bytes()):
                    found.append(pid)
        if found:
            _kill(sorted(found)[int(choice * len(found))])
        return bool(found)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
