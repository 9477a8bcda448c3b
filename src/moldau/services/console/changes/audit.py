"""A line for each change that was made or refused: who, when, what, and what came of it."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

from moldau.common.settings.rows import SettingError

log = logging.getLogger("moldau.console.audit")

KEPT = 500
_TEXT_MAX = 2_000


class Line(NamedTuple):
    """One change; `outcome` is begun (in the file only), done, refused or failed."""

    at_ms: int
    who: str
    host: str
    change: str
    target: str
    outcome: str
    detail: str


class Audit:
    """The last KEPT lines in memory, and all of them in the log and a file."""

    def __init__(self, path: str | None) -> None:
        """SettingError: the file cannot be written."""
        self._lines: deque[Line] = deque(maxlen=KEPT)
        self._path = Path(path) if path else None
        self._lock = threading.Lock()
        if self._path is not None:
            try:
                with self._path.open("a", encoding="utf-8"):
                    pass
            except OSError as problem:
                name = "moldau.console.audit.file"
                raise SettingError(name, f"{name}={path} cannot be written: {problem.strerror}") from None

    def begin(self, who: str, host: str, change: str, target: str, detail: str) -> None:
        """What is about to be done: a line in the file only. OSError: it cannot be written, so do nothing."""
        now_ms = time.time_ns() // 1_000_000
        self._write(Line(now_ms, who, host, change, target[:_TEXT_MAX], "begun", detail[:_TEXT_MAX]))

    def add(self, who: str, host: str, change: str, target: str, outcome: str, detail: str) -> Line:
        """Write a line. OSError: it cannot be written to the file."""
        line = Line(
            time.time_ns() // 1_000_000, who, host, change, target[:_TEXT_MAX], outcome, detail[:_TEXT_MAX]
        )
        self._lines.appendleft(line)
        log.info("%s", json.dumps(line._asdict(), ensure_ascii=True))
        self._write(line)
        return line

    def _write(self, line: Line) -> None:
        if self._path is not None:
            with self._lock, self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line._asdict(), ensure_ascii=True) + "\n")

    def newest(self, count: int = KEPT) -> list[Line]:
        """The newest first."""
        return [each for each, _ in zip(self._lines, range(count), strict=False)]
