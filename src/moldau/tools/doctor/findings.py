"""What a check found: one line each, with what to do about it, and whether the checks after it can run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


class Grade(Enum):
    """How a check ended; `name` is printed."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result. `check` names what was looked at, `message` has the facts, `remedy` what to do."""

    check: str
    grade: Grade
    message: str
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the finding for `--json`."""
        return {**asdict(self), "grade": self.grade.value}


@dataclass(slots=True)
class Report:
    """All findings so far; `tell` is called with each as it is made."""

    tell: Callable[[Finding], None]
    findings: list[Finding] = field(default_factory=list)

    def ok(self, check: str, message: str) -> None:
        """The check passed."""
        self._add(Finding(check, Grade.OK, message))

    def warn(self, check: str, message: str, remedy: str) -> None:
        """It works, and will bite."""
        self._add(Finding(check, Grade.WARNING, message, remedy))

    def fail(self, check: str, message: str, remedy: str) -> None:
        """A client cannot work like this."""
        self._add(Finding(check, Grade.FAILED, message, remedy))

    def skip(self, check: str, reason: str) -> None:
        """It was not looked at."""
        self._add(Finding(check, Grade.SKIPPED, reason))

    def _add(self, finding: Finding) -> None:
        self.findings.append(finding)
        self.tell(finding)

    def count(self, grade: Grade) -> int:
        """How many findings are of this grade."""
        return sum(each.grade is grade for each in self.findings)


class Stopwatch:
    """Milliseconds since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def ms(self) -> float:
        """The time until now, in milliseconds."""
        return (time.perf_counter() - self._began) * 1000

    def __str__(self) -> str:
        return f"{self.ms:.1f} ms"
