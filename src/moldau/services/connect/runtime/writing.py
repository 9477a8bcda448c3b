"""From a source's batches to what a producer takes: transforms, then the converters.

    batch ──> transforms ──> key, value, headers as bytes ──> Outgoing, a record each

Rows that are refused on the way become problems; the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moldau.connect.batch import Batch
from moldau.connect.errors import BadRecord, Retriable
from moldau.services.connect.runtime.converters import Converters
from moldau.services.connect.runtime.problems import Problem, Stage, class_name
from moldau.services.connect.runtime.steps import Steps

Headers = list[tuple[str, bytes | None]]


class Outgoing(NamedTuple):
    """Records of one topic, column by column."""

    topic: str
    partition: int | None
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: list[int | None]
    headers: list[Headers] | None
    rows: Sequence[int]
    """Which row of the source's batch each is."""
    given: Batch
    """The source's batch."""


class Writing:
    """Converters and transforms of a source's task."""

    def __init__(self, converters: Converters, steps: Steps) -> None:
        self._converters = converters
        self._steps = steps

    def outgoing(self, given: Batch) -> tuple[list[Outgoing], list[Problem]]:
        """The records of a batch, and the rows that are refused. Retriable."""
        problems: list[Problem] = []
        batches: list[Batch] = [given]
        if self._steps:
            batches, found = self._steps.apply(given)
            problems += found
        made = [self._converted(each, given, problems) for each in batches]
        return [each for each in made if each.values], [_of(each, given) for each in problems]

    def _converted(self, batch: Batch, given: Batch, problems: list[Problem]) -> Outgoing:
        rows = range(len(batch)) if batch.rows is None else batch.rows.to_pylist()
        bad: set[int] = set()
        headers = self._headers(batch, rows, bad, problems)
        sides = []
        for stage, converter, column in (
            (Stage.KEY_CONVERTER, self._converters.key, batch.key),
            (Stage.VALUE_CONVERTER, self._converters.value, batch.value),
        ):
            payloads, refused = converter.to_payloads(batch.topic, column)
            for row, reason in refused:
                if row not in bad:
                    problems.append(Problem(rows[row], stage, class_name(converter), BadRecord(reason)))
                    bad.add(row)
            sides.append(payloads.to_pylist())
        keys, values = sides
        times = batch.timestamps_ms.to_pylist()
        if bad:
            kept = [row for row in range(len(batch)) if row not in bad]
            keys, values, times = ([each[row] for row in kept] for each in (keys, values, times))
            headers = None if headers is None else [headers[row] for row in kept]
            rows = [rows[row] for row in kept]
        return Outgoing(batch.topic, batch.partition, keys, values, times, headers, rows, given)

    def _headers(
        self, batch: Batch, rows: Sequence[int], bad: set[int], problems: list[Problem]
    ) -> list[Headers] | None:
        if batch.headers is None:
            return None
        converter = self._converters.header
        made: list[Headers] = []
        for row, headers in enumerate(batch.headers):
            try:
                made.append([(each.key, converter.to_payload(batch.topic, each)) for each in headers])
            except Retriable:
                raise
            except Exception as error:
                problems.append(Problem(rows[row], Stage.HEADER_CONVERTER, class_name(converter), error))
                bad.add(row)
                made.append([])
        return made

    def close(self) -> None:
        """Let go of converters and transforms."""
        self._converters.close()
        self._steps.close()


def _of(problem: Problem, given: Batch) -> Problem:
    return Problem(problem.row, problem.stage, problem.class_name, problem.error, given)


def records(
    outgoing: Outgoing,
) -> Iterator[tuple[int, bytes | None, bytes | None, int | None, Headers | None]]:
    """Row, key, value, timestamp and headers of each."""
    for index, row in enumerate(outgoing.rows):
        yield (
            row,
            outgoing.keys[index],
            outgoing.values[index],
            outgoing.timestamps_ms[index],
            None if outgoing.headers is None else outgoing.headers[index] or None,
        )
