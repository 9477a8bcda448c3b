"""Records that cannot be handled, and what `errors.*` says becomes of them.

    errors.tolerance=none   the first one fails the task: `Failed`, with stage, record and reason
    errors.tolerance=all    it is left out, logged (errors.log.*), counted, and a dead letter where there is a
                            topic for these (dead_letters.py)

Operations that may succeed later (Retriable) are repeated for `errors.retry.timeout`, with pauses that double
from 300 ms to `errors.retry.delay.max.ms`, as Kafka's do.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from moldau.common.core.clock import Clock
from moldau.connect.batch import Batch
from moldau.connect.errors import ConnectError, Retriable
from moldau.services.connect.runtime.metrics import TaskMetrics

log = logging.getLogger("moldau.connect")

FIRST_DELAY_MS = 300
_LOGGED_MAX = 2_000

ResultT = TypeVar("ResultT")


class Stage(Enum):
    """Where a record failed; the values are Kafka's."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TASK_PUT = "TASK_PUT"
    TASK_POLL = "TASK_POLL"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


@dataclass(frozen=True, slots=True)
class Problem:
    """One record that cannot be handled."""

    row: int
    """Of the run (sink) or of the batch that the source yielded."""
    stage: Stage
    class_name: str
    error: Exception
    batch: Batch | None = None
    """Of a source: the batch as it was yielded."""


class Failed(ConnectError):
    """A record failed, and `errors.tolerance` is none."""

    def __init__(self, problem: Problem, where: str) -> None:
        self.problem = problem
        super().__init__(
            f"{where}: {problem.stage.value} ({problem.class_name}) failed: {problem.error} "
            "(errors.tolerance=all leaves such records out)"
        )


def class_name(thing: object) -> str:
    """As it is written in a configuration."""
    named = isinstance(thing, type) or (callable(thing) and hasattr(thing, "__name__"))
    kind: Any = thing if named else type(thing)
    return f"{kind.__module__}:{kind.__qualname__}"


class ErrorPolicy:
    """What the settings say, and counts."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        clock: Clock,
        metrics: TaskMetrics,
        owner: str,
        hidden: Callable[[str], str] = str,
    ) -> None:
        """`settings`: those of ERROR_ROWS; `owner`: the task, as the log names it; `hidden`: a text without
        secrets."""
        self._hidden = hidden
        self._clock = clock
        self._metrics = metrics
        self._owner = owner
        self.tolerant = settings["errors.tolerance"] == "all"
        self._timeout_ms: int | None = settings["errors.retry.timeout"]
        self._delay_max_ms = max(int(settings["errors.retry.delay.max.ms"]), 1)
        self._logs = settings["errors.log.enable"]
        self._names_records = settings["errors.log.include.messages"]

    def meet(self, problem: Problem, where: Callable[[], str]) -> None:
        """Leave the record out, or fail: Failed. `where` names the record."""
        self._metrics.failed_record(self._clock.now_ms())
        if self._logs or not self.tolerant:
            named = f" of {where()}" if self._names_records else ""
            log.error(
                "%s: a record%s failed at %s (%s): %s",
                self._owner,
                named,
                problem.stage.value,
                problem.class_name,
                self._hidden(str(problem.error))[:_LOGGED_MAX],
            )
            self._metrics.add("total-errors-logged")
        if not self.tolerant:
            raise Failed(problem, where()) from problem.error
        self._metrics.add("total-records-skipped")

    def repeated(
        self, operation: Callable[[], ResultT], wait: Callable[[float], bool], *, endless: bool
    ) -> ResultT:
        """Its result; Retriable where it took too long. `wait` returns True to give up at once."""
        pauses: Pauses | None = None
        while True:
            try:
                return operation()
            except Retriable as error:
                if pauses is None:
                    pauses = self.pauses(endless=endless)
                if wait(pauses.next_seconds(error)):
                    raise

    def pauses(self, *, endless: bool) -> Pauses:
        """The pauses after an operation that failed for the first time, now.

        `endless`: what to do where `errors.retry.timeout` is not given: repeat without end, or not at all.
        """
        limit_ms = self._timeout_ms if self._timeout_ms is not None else (-1 if endless else 0)
        return Pauses(limit_ms, self._delay_max_ms, self._clock, self._metrics, self._owner, self._hidden)


class Pauses:
    """Between the attempts of one operation."""

    def __init__(
        self,
        limit_ms: int,
        delay_max_ms: int,
        clock: Clock,
        metrics: TaskMetrics,
        owner: str,
        hidden: Callable[[str], str] = str,
    ) -> None:
        self._hidden = hidden
        self._limit_ms = limit_ms
        self._delay_max_ms = delay_max_ms
        self._clock = clock
        self._metrics = metrics
        self._owner = owner
        self._began_ms = clock.monotonic_ms()
        self._delay_ms = min(FIRST_DELAY_MS, delay_max_ms)

    def next_seconds(self, error: Retriable) -> float:
        """How long to wait before the next attempt; raises the error if there is none."""
        self._metrics.failed_operation(self._clock.now_ms())
        spent_ms = self._clock.monotonic_ms() - self._began_ms
        if 0 <= self._limit_ms <= spent_ms:
            raise error
        pause_ms = float(self._delay_ms)
        if self._limit_ms >= 0:
            pause_ms = min(pause_ms, max(self._limit_ms - spent_ms, 1))
        self._delay_ms = min(self._delay_ms * 2, self._delay_max_ms)
        self._metrics.add("total-retries")
        said = self._hidden(str(error))
        log.warning("%s: %s; trying again in %.1f s", self._owner, said, pause_ms / 1000)
        return pause_ms / 1000


def sentence_and_details(error: BaseException) -> str:
    """What a status says: a sentence, and where it was a bug or had a cause, details below it."""
    if isinstance(error, ConnectError):
        text = str(error) or type(error).__name__
        cause = error.__cause__
        if cause is not None and str(cause) and str(cause) not in text:
            text += f"\nCaused by: {type(cause).__name__}: {cause}"
        return text
    details = "".join(traceback.format_exception(error)).rstrip()
    return f"{type(error).__name__}: {error}\n{details}"
