"""The broker's log: one readable line a message (or one JSON object a line), and repeated messages said once.

    2026-11-21 05:43:12.123 WARNING moldau.server: closed the connection of 10.0.0.7: it sent ...

A message may carry what a client chose (its id, its topic names), so control characters are escaped: a client
cannot forge a log line. Only a traceback spans several lines, each indented.

`SayOnce` is for messages that a client can cause as often as it likes. The first of a kind is logged, the
next ones are counted, and the count is told with the first one after the interval. Its memory and its lines
are both bounded, because the kinds, too, are the client's choice.

Not here: which messages there are; levels by setting are the caller's (`set_up`).
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Hashable
from typing import TextIO

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


class LineFormatter(logging.Formatter):
    """Local time with milliseconds, level, logger, message; a traceback follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        message = record.getMessage().translate(_ESCAPES)
        line = f"{clock}.{int(record.msecs):03d} {record.levelname} {record.name}: {message}"
        trace = _trace(self, record)
        return line + "".join(f"\n    {each}" for each in trace.splitlines())


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC, ISO 8601), level, logger, message, perhaps a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{clock}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        trace = _trace(self, record)
        if trace:
            fields["traceback"] = trace
        return json.dumps(fields)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def set_up(level: str = "INFO", *, as_json: bool = False, stream: TextIO | None = None) -> None:
    """Send everything of `moldau.*` at `level` and above to `stream` (standard error), replacing an earlier
    set-up.

    Raises ValueError for a level that is not one of `LEVELS`. Loggers of other programs in the process are
    left alone.
    """
    if level.upper() not in LEVELS:
        raise ValueError(f"no log level {level!r}: one of {', '.join(LEVELS)}")
    root = logging.getLogger("moldau")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    for old in [each for each in root.handlers if isinstance(each, logging.StreamHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    root.propagate = False


class _Kind:
    __slots__ = ("repeats", "said_ms")

    def __init__(self, said_ms: float) -> None:
        self.said_ms = said_ms
        self.repeats = 0


class SayOnce:
    """Logs the first message of each kind and interval; counts the others."""

    def __init__(
        self,
        log: logging.Logger,
        *,
        now_ms: Callable[[], float],
        interval_ms: float = 60_000,
        kinds_max: int = 1_000,
        lines_max: int = 100,
    ) -> None:
        """`kinds_max` bounds what is remembered; `lines_max` bounds what is logged in one interval."""
        self._log = log
        self._interval_ms = interval_ms
        self._kinds_max = kinds_max
        self._lines_max = lines_max
        self._now_ms = now_ms
        self._kinds: dict[Hashable, _Kind] = {}
        self._window_ms = now_ms()
        self._lines = 0
        self._unsaid = 0

    def warning(self, kind: Hashable, message: str, *arguments: object) -> bool:
        """Log a warning of this kind, unless it was said within the interval; whether it was logged."""
        return self.log(logging.WARNING, kind, message, *arguments)

    def log(self, level: int, kind: Hashable, message: str, *arguments: object) -> bool:
        """As `warning`, at any level."""
        now_ms = self._now_ms()
        known = self._kinds.get(kind)
        if known is not None and now_ms - known.said_ms < self._interval_ms:
            known.repeats += 1
            return False
        if not self._may_say(now_ms):
            return False
        if known is not None:
            del self._kinds[kind]  # it goes to the end: the dict stays ordered by when each was last said
            if known.repeats:
                message += " (and %d more times since it was last said, %.0f s ago)"
                arguments = (*arguments, known.repeats, (now_ms - known.said_ms) / 1000)
        elif len(self._kinds) >= self._kinds_max:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = _Kind(now_ms)
        self._log.log(level, message, *arguments)
        return True

    def _may_say(self, now_ms: float) -> bool:
        if now_ms - self._window_ms >= self._interval_ms:
            if self._unsaid:
                self._log.warning("%d further messages like the ones above were left out", self._unsaid)
            self._window_ms, self._lines, self._unsaid = now_ms, 0, 0
        if self._lines >= self._lines_max:
            self._unsaid += 1
            return False
        self._lines += 1
        return True
