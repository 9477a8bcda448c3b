"""What made a flow fail, in a sentence, and whether trying again may help.

Spark hands a failure on as a long text: its own summary, the plan, and traces of Java and Python. What a
person needs is the line in which Python says what happened, or else Spark's first line.
"""

from __future__ import annotations

import re
from enum import Enum

PYTHON_ERROR = re.compile(
    r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Timeout|Topic|Refused|Fenced|Lost|Range)): (.+)$", re.M
)
FRAMEWORK = ("Py4JJavaError", "Py4JException", "PySparkRuntimeError", "PythonException")
NAMES_WORTH_SAYING = re.compile(
    r"ZeroDivisionError|KeyError|ValueError|TypeError|AttributeError|IndexError|RuntimeError|NameError|ImportError"
    r"|ModuleNotFoundError|AssertionError"
)


class Cure(Enum):
    """What may help against a failure."""

    AGAIN = "again"
    """Another attempt, a few times."""
    WAIT = "wait"
    """Nothing but the broker's return."""
    NONE = "none"
    """Another driver works."""


def sentence(failure: BaseException | str) -> str:
    """What happened, in a line."""
    text = str(failure)
    found = [(name, said) for name, said in PYTHON_ERROR.findall(text) if name not in FRAMEWORK]
    if found:
        name, said = found[-1]
        said = said.strip()
        return f"{name}: {said}" if NAMES_WORTH_SAYING.fullmatch(name) else said
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        inner = re.match(r"(?:Caused by: )?org\.apache\.spark\.[\w.$]+(?:Exception|Error): (.+)", line)
        if inner:
            return inner[1]
    return re.sub(r"^\[STREAM_FAILED\].*?exception: ", "", lines[0]) if lines else type(failure).__name__


def cure_of(failure: BaseException | str) -> Cure:
    """What may help."""
    text = str(failure)
    if "Fenced" in text or "another driver has taken over" in text:
        return Cure.NONE
    if "ClusterTimeout" in text:
        return Cure.WAIT
    return Cure.AGAIN
