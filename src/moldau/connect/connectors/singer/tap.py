"""A tap as a process: its lines come through a thread, so that who reads them can do something else
meanwhile.

stdout ──> thread ──> at most so many lines and bytes ──> lines()
stderr ──> thread ──> the log, and the last lines for an error message
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from moldau.connect.errors import ConnectError

log = logging.getLogger("moldau.connect.singer")
_LINE_BYTES_MAX = 64 << 20
_LINES_MAX = 1000
_HELD_BYTES_MAX = 8 << 20
"""Lines are held up to that; a longer one alone."""
_LINES_KEPT = 5
_LOOK_SECONDS = 0.2


class Tap:
    """A running tap, with its files; both end with the block. ConnectError if it cannot be started."""

    def __init__(self, command: Sequence[str], files: Mapping[str, bytes]) -> None:
        self._command = command
        self._files = files
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._room = threading.Condition()
        self._held_bytes = 0
        self._ended = False
        self._said: deque[str] = deque(maxlen=_LINES_KEPT)

    def __enter__(self) -> Tap:
        self._folder = tempfile.TemporaryDirectory(
            prefix="moldau-tap-"
        )  # its owner's alone: secrets are in it
        arguments: list[str] = []
        for name, text in self._files.items():
            path = Path(self._folder.name, f"{name}.json")
            path.write_bytes(text)
            arguments += [f"--{name}", str(path)]
        pipe = subprocess.PIPE
        command = [*self._command, *arguments]
        try:
            self._process = subprocess.Popen(
                command, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as problem:
            self._folder.cleanup()
            raise ConnectError(f"{self._command[0]} cannot be started: {problem.strerror}") from None
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._read_lines, self._read_complaints)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._room:
            self._ended = True
            self._room.notify_all()
        if self._process.returncode is None:  # not waited for, so the number is still its group's
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # a script's children too, which hold the pipes
        self._process.wait()
        for thread in self._threads:
            thread.join(10)
        self._folder.cleanup()

    def lines(self) -> Iterator[bytes | None]:
        """Each line, and None while there is none. ConnectError when the tap fails, with what it said
        last."""
        while True:
            try:
                line = self._lines.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                yield None
                continue
            if not line:
                break
            with self._room:
                self._held_bytes -= len(line)
                self._room.notify_all()
            if len(line) >= _LINE_BYTES_MAX:
                raise ConnectError(f"{self._command[0]} writes a line of more than 64 MiB")
            yield line
        status = self._process.wait()
        if status != 0:
            self._threads[1].join(10)
            raise ConnectError(
                f"{self._command[0]} ended with {status}: {'; '.join(self._said) or 'no word'}"
            )

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            while line := lines.readline(_LINE_BYTES_MAX):
                with self._room:
                    self._room.wait_for(self._has_room)
                    if self._ended:
                        break
                    self._held_bytes += len(line)
                self._lines.put(line)
        self._lines.put(b"")

    def _has_room(self) -> bool:
        full = self._lines.qsize() >= _LINES_MAX or self._held_bytes >= _HELD_BYTES_MAX
        return self._ended or not full

    def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            while line := lines.readline(4096):
                text = line.decode("utf-8", "replace").rstrip()
                self._said.append(text)
                log.debug("%s", text)
