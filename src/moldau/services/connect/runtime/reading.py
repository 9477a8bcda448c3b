"""From what a consumer hands out to a sink's batches: payloads to columns, then the chain of transforms.

messages of one partition ──> key column  ─┐
                          ──> value column ┴─ cut where a schema changes or a record is refused ──> Batch
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from moldau.connect.batch import Batch, Column, Header, TopicPartition
from moldau.connect.converter import Converted
from moldau.connect.errors import BadRecord, Retriable
from moldau.services.connect.runtime.converters import Converters
from moldau.services.connect.runtime.problems import Problem, Stage, class_name
from moldau.services.connect.runtime.steps import Steps


class Columns(NamedTuple):
    """Messages column by column."""

    keys: pa.Array
    values: pa.Array
    timestamps_ms: pa.Array
    offsets: pa.Array
    headers: Sequence[Any] | None


class Columnar(Protocol):
    """Messages that are columns already (spark_rows.py)."""

    def columns(self) -> Columns:
        """All of them."""


def columns_of(messages: Sequence[Any]) -> Columns:
    """The columns of messages as a client hands them out, or of such that have columns."""
    columnar = getattr(messages, "columns", None)
    if columnar is not None:
        made: Columns = columnar()
        return made
    return Columns(
        pa.array([each.key() for each in messages], pa.binary()),
        pa.array([each.value() for each in messages], pa.binary()),
        pa.array([_timestamp(each) for each in messages], pa.int64()),
        pa.array([each.offset() for each in messages], pa.int64()),
        [each.headers() for each in messages],
    )


class Reading:
    """Converters and transforms of a sink's task."""

    def __init__(self, converters: Converters, steps: Steps) -> None:
        self._converters = converters
        self._steps = steps

    def batches(self, origin: TopicPartition, messages: Sequence[Any]) -> tuple[list[Batch], list[Problem]]:
        """Consecutive messages of a partition as batches; problems by the message's index. Retriable."""
        given = columns_of(messages)
        bad: dict[int, Problem] = {}
        headers = self._headers(origin.topic, given.headers, bad)
        keys = self._columns(origin.topic, given.keys, Stage.KEY_CONVERTER, bad)
        values = self._columns(origin.topic, given.values, Stage.VALUE_CONVERTER, bad)
        made: list[Batch] = []
        for first, key, value in _matched(keys, values, bad):
            batch = Batch(
                origin.topic,
                key,
                value,
                given.timestamps_ms.slice(first, len(key)),
                None if headers is None else tuple(headers[first : first + len(key)]),
                origin=origin,
                offsets=given.offsets.slice(first, len(key)),
            )
            made += self._transformed(batch, first, bad)
        return made, [bad[row] for row in sorted(bad)]

    def _transformed(self, batch: Batch, first: int, bad: dict[int, Problem]) -> Sequence[Batch]:
        if not self._steps:
            return [batch]
        made, problems = self._steps.apply(batch)
        for each in problems:
            row = first + each.row
            bad.setdefault(row, Problem(row, each.stage, each.class_name, each.error))
        return made

    def _columns(
        self, topic: str, payloads: pa.Array, stage: Stage, bad: dict[int, Problem]
    ) -> Sequence[Converted]:
        converter = self._converters.key if stage is Stage.KEY_CONVERTER else self._converters.value
        found, refused = converter.to_columns(topic, payloads)
        for row, reason in refused:
            bad.setdefault(row, Problem(row, stage, class_name(converter), BadRecord(reason)))
        return found

    def _headers(
        self, topic: str, given: Sequence[Any] | None, bad: dict[int, Problem]
    ) -> list[tuple[Header, ...]] | None:
        if given is None or not any(given):
            return None
        made: list[tuple[Header, ...]] = []
        for row, headers in enumerate(given):
            try:
                made.append(tuple(self._converters.header.to_header(topic, *each) for each in headers or ()))
            except Retriable:
                raise
            except Exception as error:
                name = class_name(self._converters.header)
                bad.setdefault(row, Problem(row, Stage.HEADER_CONVERTER, name, error))
                made.append(())
        return made

    def close(self) -> None:
        """Let go of converters and transforms."""
        self._converters.close()
        self._steps.close()


def _timestamp(message: Any) -> int | None:
    kind, timestamp_ms = message.timestamp()
    return timestamp_ms if kind else None


def _matched(
    keys: Sequence[Converted], values: Sequence[Converted], bad: dict[int, Problem]
) -> list[tuple[int, Column, Column]]:
    """Rows that both sides have and nobody refused, cut where either side begins a new column."""
    made: list[tuple[int, Column, Column]] = []
    refused = sorted(bad)
    key_at = value_at = 0
    while key_at < len(keys) and value_at < len(values):
        key, value = keys[key_at], values[value_at]
        key_end, value_end = key.first + len(key.column), value.first + len(value.column)
        first, end = max(key.first, value.first), min(key_end, value_end)
        for start, stop in _without(refused, first, end):
            count = stop - start
            made.append(
                (
                    start,
                    key.column.slice(start - key.first, count),
                    value.column.slice(start - value.first, count),
                )
            )
        if key_end <= value_end:
            key_at += 1
        if value_end <= key_end:
            value_at += 1
    return made


def _without(refused: Sequence[int], first: int, end: int) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    at = first
    for row in refused:
        if first <= row < end:
            if row > at:
                made.append((at, row))
            at = row + 1
    if end > at:
        made.append((at, end))
    return made
