"""Servers that the tools start and stop: in the background with -daemon, found again by their command lines.

Kafka's stop scripts look for its main class among all processes; these look for processes that the start
script's counterpart here has started, of this user only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.tools import bare

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05
_TAIL_BYTES = 2000


class Process(NamedTuple):
    """A process of this user: its id and the words of its command line."""

    pid: int
    words: tuple[str, ...]


def own_processes() -> Iterator[Process]:
    """All processes of this user whose command line can be read."""
    proc = Path("/proc")
    if not (proc / "self" / "cmdline").exists():
        yield from _listed_by_ps()
        return
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if entry.stat().st_uid == os.getuid():
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                yield Process(int(entry.name), tuple(words[:-1]))
        except OSError:
            continue  # it has ended meanwhile


def _listed_by_ps() -> Iterator[Process]:
    listed = subprocess.run(
        ["ps", "-ww", "-x", "-o", "pid=,command="], capture_output=True, text=True, check=False
    )
    for line in listed.stdout.splitlines():
        pid, _, command = line.strip().partition(" ")
        if pid.isdigit():
            yield Process(int(pid), tuple(command.split()))


def started_with(tool: str) -> Iterator[tuple[Process, list[str]]]:
    """The processes that run a tool of this package, and the words after its name."""
    for each in own_processes():
        for index in range(2, len(each.words)):
            runs = each.words[index - 2 : index] == ("-m", "moldau.tools.kafka")
            if runs and bare(each.words[index]) == tool and each.pid != os.getpid():
                yield each, list(each.words[index + 1 :])


def in_background(tool: str, words: Sequence[str], output: Path, is_ready: Callable[[str], bool]) -> int:
    """Start a tool as a process of its own and return its id once its output says that it is ready.

    Unlike Kafka's scripts, which return at once. ToolError with its last lines if it ends first.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("ab") as log:
        begin = log.tell()
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "moldau.tools.kafka", tool, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + READY_SECONDS
    while True:
        ended = child.poll() is not None
        said = _since(output, begin)
        if is_ready(said):
            return child.pid
        if ended:
            raise ToolError(
                f"{tool} ended with exit code {child.returncode}; {output} ends with:\n{_tail(said)}"
            )
        if time.monotonic() > deadline:
            raise ToolError(
                f"{tool} (process {child.pid}) is not ready after {READY_SECONDS:.0f} s: see {output}"
            )
        time.sleep(_POLL_SECONDS)


def _since(path: Path, begin: int) -> str:
    with path.open("rb") as file:
        file.seek(begin)
        return file.read().decode(errors="replace")


def _tail(text: str) -> str:
    return text[-_TAIL_BYTES:].strip()


def log_folder(config: str) -> Path:
    """Where output of servers in the background goes: LOG_DIR, else `logs` beside the config folder."""
    named = os.environ.get("LOG_DIR")
    if named:
        return Path(named)
    folder = Path(config).absolute().parent
    while folder.name != "config" and folder.parent != folder:
        folder = folder.parent
    return (folder.parent if folder.name == "config" else Path.cwd()) / "logs"


def stop(found: Sequence[Process], number: signal.Signals = signal.SIGTERM) -> None:
    """Ask processes to end, and wait until they have. ToolError if one does not."""
    for each in found:
        try:
            os.kill(each.pid, number)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + STOP_SECONDS
    for each in found:
        while _runs(each.pid):
            if time.monotonic() > deadline:
                raise ToolError(
                    f"process {each.pid} was asked to end, and still runs after {STOP_SECONDS:.0f} s"
                )
            time.sleep(_POLL_SECONDS)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return not Path("/proc/self").exists()
    return state != "Z"  # ended; its parent has not looked yet
