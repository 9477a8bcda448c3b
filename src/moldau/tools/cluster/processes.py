"""Processes that outlive the command that started them, found again by another one.

A process id alone is no identity: after a crash of the machine, or some weeks, the same number belongs to
somebody else's program, and `moldau cluster stop` would end that one. So a process is recorded with the
moment at which it started, which the operating system remembers, and counts as gone when that differs.

    process.json   {"pid": 4711, "started": "0d9c...:1234567"}     boot id, start in ticks since then (Linux)
                   {"pid": 4711, "started": "Sun Nov 22 17:34:01 2026"}                    ps (elsewhere)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.tools.shared.errors import CommandError

FILE = "process.json"
RUNNING, PAUSED, GONE = "running", "paused", "gone"
_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
_POLL_SECONDS = 0.02


class Process(NamedTuple):
    """A process as it was recorded; `started` tells it from a later one with the same number."""

    pid: int
    started: str

    def state(self) -> str:
        """Return running, paused (SIGSTOP, a debugger) or gone."""
        found = _look(self.pid)
        if found is None or found[0] != self.started:
            return GONE
        return PAUSED if found[1] in "Tt" else RUNNING

    def send(self, number: int) -> None:
        """Send a signal; nothing if the process is gone."""
        if self.state() != GONE:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self, timeout_seconds: float) -> bool:
        """Have it end itself (SIGTERM); kill it after the timeout, and return False then."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a paused process cannot end itself
        if self._gone_within(timeout_seconds):
            return True
        self.send(signal.SIGKILL)
        if not self._gone_within(timeout_seconds):
            raise CommandError(
                f"process {self.pid} cannot be killed: is its disk hanging? See `ps {self.pid}`"
            )
        return False

    def _gone_within(self, timeout_seconds: float) -> bool:
        deadline = time.monotonic() + timeout_seconds
        while self.state() != GONE:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def spawn(
    command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None
) -> Process:
    """Start a process that outlives this one and record it in `folder`; its output is added to `log`."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the terminal's Ctrl-C is not for it
            env=environment,
        )
    # Looked at before anybody waits for it: until then even a dead child keeps its number.
    found = _look(child.pid)
    process = Process(child.pid, found[0] if found is not None else "")
    temporary = folder / f"{FILE}.new"
    temporary.write_text(json.dumps(process._asdict()) + "\n")
    temporary.replace(folder / FILE)
    child.returncode = 0  # nobody waits for it; without this, Popen warns that it still runs
    return process


def recorded(folder: Path) -> Process | None:
    """Return the process that was last started for this folder, alive or dead; None if there was none."""
    try:
        found = json.loads((folder / FILE).read_text())
        return Process(int(found["pid"]), str(found["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def alive(folder: Path) -> Process | None:
    """Return this folder's process if it lives."""
    process = recorded(folder)
    return process if process is not None and process.state() != GONE else None


def forget(folder: Path) -> None:
    """Remove the record of a process that has ended."""
    (folder / FILE).unlink(missing_ok=True)


def _look(pid: int) -> tuple[str, str] | None:
    """Return when a process started and the letter of its state; None if it is no more (or a zombie)."""
    if _BOOT.exists():
        try:
            # pid (name) state ppid ...; the name may contain blanks and brackets. Field 22 is the start.
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        found = f"{_BOOT.read_text().strip()}:{fields[19]}", fields[0]
    else:
        words = subprocess.run(
            ["ps", "-o", "state=", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split(None, 1)
        if len(words) < 2:
            return None
        found = words[1].strip(), words[0][0]
    return None if found[1] in "ZX" else found
