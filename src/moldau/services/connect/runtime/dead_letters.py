"""Dead letters: records that could not be handled, as they were, with the reason in headers.

    __connect.errors.topic partition offset          where the record is (a source: the topic it was meant
    for) __connect.errors.connector.name task.id stage class.name __connect.errors.exception.class.name
    exception.message exception.stacktrace __connect.errors.source.partition source.offset  of a source
    only, JSON (Moldau's)

Names and forms of values are Kafka's (DeadLetterQueueReporter). A letter is written in the transaction that
commits the offsets of its record, so that it is neither lost nor written twice (sink_letters.py,
source_writer.py).
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.connect.building import rows
from moldau.services.connect.runtime.hiding import Hiding
from moldau.services.connect.runtime.interface import TaskId
from moldau.services.connect.runtime.problems import Problem

PREFIX = "__connect.errors."
_TEXT_BYTES_MAX = 10_000
Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Letter:
    """One record of the dead letter topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """Of what it carries, about."""
        return len(self.key or b"") + len(self.value or b"") + 100


class LetterWriter:
    """Makes letters; the settings say whether with context."""

    def __init__(self, settings: Mapping[str, Any], task: TaskId, hiding: Hiding) -> None:
        """`settings`: those of ERROR_ROWS."""
        self.topic: str = settings["errors.deadletterqueue.topic.name"].strip()
        self.replication_factor: int = settings["errors.deadletterqueue.topic.replication.factor"]
        self._with_context = settings["errors.deadletterqueue.context.headers.enable"]
        self._task = task
        self._hiding = hiding

    @property
    def is_wanted(self) -> bool:
        """Whether there is a topic for them."""
        return bool(self.topic)

    def of_message(self, message: Any, problem: Problem) -> Letter:
        """A sink's: the bytes as they were read."""
        kind, timestamp_ms = message.timestamp()
        place = {
            "topic": message.topic(),
            "partition": str(message.partition()),
            "offset": str(message.offset()),
        }
        headers = list(message.headers() or ()) + self._context(place, problem)
        return Letter(message.key(), message.value(), headers, timestamp_ms if kind else None)

    def of_row(
        self, problem: Problem, partition: Mapping[str, Any], offset: Mapping[str, Any] | None
    ) -> Letter:
        """A source's: there are no bytes yet, so key and value are written as JSON."""
        key = value = None
        timestamp_ms = None
        topic = ""
        if problem.batch is not None:
            row = next(iter(rows(problem.batch.slice(problem.row, 1))))
            key, value, timestamp_ms = _json(row.key), _json(row.value), row.timestamp_ms
            topic = problem.batch.topic
        place = {"topic": topic, "source.partition": _text(partition), "source.offset": _text(offset)}
        return Letter(key, value, self._context(place, problem), timestamp_ms)

    def _context(self, place: Mapping[str, str], problem: Problem) -> Headers:
        if not self._with_context:
            return []
        error = problem.error
        found = {
            **place,
            "connector.name": self._task.connector,
            "task.id": str(self._task.task),
            "stage": problem.stage.value,
            "class.name": problem.class_name,
            "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
            "exception.message": str(error),
            "exception.stacktrace": "".join(traceback.format_exception(error)),
        }
        return [(PREFIX + name, self._bytes(value)) for name, value in found.items()]

    def _bytes(self, text: str) -> bytes:
        return self._hiding.text(text).encode("utf-8", "replace")[:_TEXT_BYTES_MAX]


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _json(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else _text(value)).encode("utf-8", "replace")


def problems_by_row(problems: Sequence[Problem]) -> dict[int, Problem]:
    """The first problem of each row."""
    found: dict[int, Problem] = {}
    for each in problems:
        found.setdefault(each.row, each)
    return found
