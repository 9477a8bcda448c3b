"""Runs a test's broker as a child process, `python -m moldau serve`, so that it can be killed."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from moldau.testing.broker import START_TIMEOUT_SECONDS, Addresses

STOP_TIMEOUT_SECONDS = 60.0
LOG_TAIL_BYTES = 4_000
SECRETS = ("password", "jaas.config", "keystore.key", "secret.key")
"""How the names of settings end whose values are secret."""


class BrokerDidNotStart(RuntimeError):
    """The child ended, or printed no ready line in time; the message has the end of its log."""


class ProcessHost:
    """One child process.

    Secret settings reach it in a file that nobody else can read, for a command line can be read by everybody.
    Its standard error goes to `log`, or to a temporary file; the end is shown when it does not start.
    `program`: the words before `serve`, by default this Python's `moldau`. `services`: names for its --with.
    """

    def __init__(
        self, log: Path | None = None, program: Sequence[str] = (), services: Sequence[str] = ()
    ) -> None:
        self._log_path = log
        self._program = [*(program or (sys.executable, "-m", "moldau"))]
        beside = ",".join(f"{name}=127.0.0.1:0" for name in services)
        self._with_services = ["--with", beside] if services else []
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._secrets: IO[str] | None = None

    @property
    def pid(self) -> int:
        """The id of the running process."""
        if self._child is None:
            raise RuntimeError("the broker is not running")
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether a child was started, and neither stopped nor killed since."""
        return self._child is not None

    def start(self, settings: Mapping[str, str]) -> Addresses:
        """Start the broker and wait for its ready line."""
        words = self._with_secrets(settings)
        # Lives as long as the child, which no block here does.
        self._log = self._log_path.open("a+b") if self._log_path else tempfile.TemporaryFile()  # noqa: SIM115
        self._child = subprocess.Popen(
            [*self._program, "serve", "--json", *self._with_services, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        ready = json.loads(self._ready_line(self._child))
        return Addresses(
            ready["bootstrap_servers"], ready.get("http_address") or "", ready.get("registry_url", "")
        )

    def _with_secrets(self, settings: Mapping[str, str]) -> list[str]:
        """The command line's words for the settings."""
        hidden = {name: value for name, value in settings.items() if name.endswith(SECRETS)}
        shown = [(name, value) for name, value in settings.items() if name not in hidden]
        words = [word for name, value in shown for word in ("--set", f"{name}={value}")]
        if not hidden:
            return words
        # Lives as long as the child, as its log does.
        self._secrets = tempfile.NamedTemporaryFile("w", suffix=".properties")  # noqa: SIM115
        for name, value in hidden.items():
            escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
            self._secrets.write(f"{name}={escaped}\n")
        self._secrets.flush()
        return ["--config", self._secrets.name, *words]

    def _ready_line(self, child: subprocess.Popen[bytes]) -> bytes:
        assert child.stdout is not None
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
                said = self._tail()  # `kill` closes the file
                self.kill()
                raise BrokerDidNotStart(f"the broker was not ready after {START_TIMEOUT_SECONDS:.0f} s{said}")
            piece = child.stdout.readline()
            if not piece:
                code = child.wait()
                self._child = None
                raise BrokerDidNotStart(f"the broker ended with exit code {code}{self._tail()}")
            line += piece
        return line

    def _tail(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0, 2)
        self._log.seek(max(self._log.tell() - LOG_TAIL_BYTES, 0))
        return ":\n" + self._log.read().decode(errors="replace")

    def stop(self) -> None:
        """Send SIGTERM and wait; a broker that does not end in time is killed, and that is an error."""
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise TimeoutError(
                f"the broker did not stop within {STOP_TIMEOUT_SECONDS:.0f} s{self._tail()}"
            ) from None
        finally:
            self._close(child)

    def pause(self) -> None:
        """SIGSTOP."""
        if self._child is not None:
            self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        if self._child is not None:
            self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL and wait."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            self._close(child)

    def _close(self, child: subprocess.Popen[bytes]) -> None:
        if child.stdout is not None:
            child.stdout.close()
        for file in (self._log, self._secrets):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
        self._secrets = None
