"""The reason of a flow's failure in one sentence, and whether a retry may help.

Spark reports a failure as a long text: its own summary, the plan, and traces of Java and Python. The user
needs Python's error line, or else Spark's first line.

An error raised while another is handled hides the first. Spark's own Python does that: its runner cleans up a
reader that could not be created, and fails with an unbound name. Of such a pair the first is shown; if the
app's own code raised the second, both.
"""

from __future__ import annotations

import re
from enum import Enum

PYTHON_ERROR = re.compile(
    r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Timeout|Topic|Refused|Fenced|Lost|Range)): (.+)$", re.M
)
WHILE_HANDLING = "During handling of the above exception, another exception occurred:"
TRACEBACK_FILE = re.compile(r'^ *File "([^"]+)", line \d+', re.M)
FRAMEWORK = ("Py4JJavaError", "Py4JException", "PySparkRuntimeError", "PythonException")
NAMES_WORTH_SAYING = re.compile(
    r"ZeroDivisionError|KeyError|ValueError|TypeError|AttributeError|IndexError|RuntimeError|NameError|ImportError"
    r"|ModuleNotFoundError|AssertionError"
)
WORKER_TOO_SLOW = re.compile(r"(?i)Python worker (failed )?to connect back")
"""Spark gives a worker ten seconds to start, and no setting changes that. One that cannot start at all is
told in the same words, so that attempts end some time."""
REGISTRY_AWAY = re.compile(r"the schema registry \S+ cannot (?:be reached|answer)")
"""What registry_client.py says."""
PROXY = "An exception was raised by the Python Proxy"
"""Java's words for an error of Python code that it called; the error itself comes further down."""


class Cure(Enum):
    """What may help against a failure."""

    AGAIN = "again"
    """Another attempt, a few times."""
    PATIENCE = "patience"
    """Another attempt, many times: the machine is too busy."""
    WAIT = "wait"
    """Nothing but the return of the broker, or of the schema registry."""
    NONE = "none"
    """Another driver works."""


def sentence(failure: BaseException | str) -> str:
    """The reason in a line."""
    text = str(failure)
    told = _last_error(text)
    if told is not None:
        before, after, _ = text.partition(WHILE_HANDLING)
        first = _last_error(before) if after else None
        if first is None or _in_words(first) == _in_words(told):
            return _in_words(told)
        if _was_raised_by_spark(text, told):
            return _in_words(first)
        return f"{_in_words(told)} (while handling {first[1]}: {first[2].strip()})"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        inner = re.match(r"(?:Caused by: |: )?org\.apache\.spark\.[\w.$]+(?:Exception|Error): (.+)", line)
        if inner and PROXY not in line:
            return inner[1]
    return re.sub(r"^\[STREAM_FAILED\].*?exception: ", "", lines[0]) if lines else type(failure).__name__


def _last_error(text: str) -> re.Match[str] | None:
    """The last error line of Python, without those that only wrap another one."""
    found = [each for each in PYTHON_ERROR.finditer(text) if each[1] not in FRAMEWORK]
    return found[-1] if found else None


def _in_words(error: re.Match[str]) -> str:
    said = error[2].strip()
    return f"{error[1]}: {said}" if NAMES_WORTH_SAYING.fullmatch(error[1]) else said


def _was_raised_by_spark(text: str, error: re.Match[str]) -> bool:
    """Whether the innermost frame of the error's traceback is Spark's own code."""
    files = TRACEBACK_FILE.findall(text[: error.start()])
    return bool(files) and "/pyspark/" in files[-1].replace("\\", "/")


def cure_of(failure: BaseException | str) -> Cure:
    """What may help."""
    text = str(failure)
    if "Fenced" in text or "another driver has taken over" in text:
        return Cure.NONE
    if "ClusterTimeout" in text or REGISTRY_AWAY.search(text):
        return Cure.WAIT
    if WORKER_TOO_SLOW.search(text):
        return Cure.PATIENCE
    return Cure.AGAIN
