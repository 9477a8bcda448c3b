"""A client in a process of its own, which can be killed and started again with the same plan."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from torture import HERE, ROOT


class ClientProcess:
    """`python -m module plan`, or another command line, again and again."""

    asks_where = signal.SIGUSR1

    def __init__(self, name: str, module: str, plan: str, folder: Path, command: Sequence[str] = ()) -> None:
        self.name = name
        self.ledger = folder / f"{name}.ledger"
        self.log = folder / f"{name}.log"
        self._command = [*command] or [sys.executable, "-m", module, plan]
        self._process: subprocess.Popen[bytes] | None = None
        self.deaths = 0

    def start(self) -> None:
        path = os.pathsep.join(map(str, (HERE.parent, ROOT)))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": path},
            )

    def kill(self) -> bool:
        """kill -9; False when it had ended already."""
        if self._process is None or self._process.poll() is not None:
            return False
        self._process.kill()
        self._process.wait()
        self._process = None
        self.deaths += 1
        return True

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def tell_where(self) -> None:
        """Have a process that hangs write its stack to its log."""
        if self._process is not None and self.running():
            self._process.send_signal(self.asks_where)

    def failed(self) -> str | None:
        """What it said when it ended by itself and not well."""
        if self._process is None or self._process.poll() in (None, 0):
            return None
        text = self.log.read_text(errors="replace")[-2000:]
        return f"client {self.name} ended with {self._process.returncode}: {text}"

    def progress(self) -> int:
        """The lines of its ledger so far."""
        return self.ledger.read_bytes().count(b"\n") if self.ledger.exists() else 0


class JavaProcess(ClientProcess):
    """A Java program; the stacks of its threads go to its log when it hangs."""

    asks_where = signal.SIGQUIT

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        super().__init__(name, "", "", folder, command)
