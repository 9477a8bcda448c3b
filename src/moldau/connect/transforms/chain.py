"""A chain of transforms over a batch: `transforms=a,b`.

    batch ──> a ──> b ──> batches, in the order of the records they come from
              │     │
              └─────┴──> failures: row of the batch, which transform, why

Rows that fail are left out, and the rest is transformed without them; what becomes of them is the worker's
business (`errors.tolerance`). Each record carries the row it comes from (`Batch.rows`), through transforms
that leave records out or make several of one. A transform with a predicate sees only the records for which it
is true; the others pass it by, and are put in between again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from moldau.connect.batch import Batch
from moldau.connect.building import concat, joined, kind_of
from moldau.connect.errors import BadRecord, BadRecords, ConnectError, Retriable
from moldau.connect.transform import Predicate, Transform

STAGE = "TRANSFORMATION"
"""Kafka's name of it, in the headers of dead letters."""


class Stage(NamedTuple):
    """One transform of a chain."""

    name: str
    transform: Transform
    class_name: str
    """As the configuration has it."""
    predicate: Predicate | None = None
    negate: bool = False


class Failure(NamedTuple):
    """A record that cannot be transformed."""

    row: int
    """In the batch that the chain was given."""
    stage: Stage
    error: Exception


class Chain:
    """Used by one thread."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = stages

    def apply(self, batch: Batch) -> tuple[Sequence[Batch], Sequence[Failure]]:
        """What becomes of the records, and those that fail, by row. Retriable goes through."""
        if not self.stages or not len(batch):
            return ([batch] if len(batch) else []), []
        failures: list[Failure] = []
        current: Sequence[Batch] = [replace(batch, rows=pa.array(np.arange(len(batch))))]
        for stage in self.stages:
            made: list[Batch] = []
            for each in current:
                made += _chosen(stage, each, failures)
            current = joined(made) if len(made) > 1 else made
        failures.sort(key=lambda failure: failure.row)
        return [_as_origin(each, batch) for each in current if len(each)], failures

    def close(self) -> None:
        """Close the transforms."""
        for stage in self.stages:
            stage.transform.close()


def _as_origin(made: Batch, batch: Batch) -> Batch:
    """What a sink needs to know of records, whatever a transform made of them."""
    if batch.offsets is None or made.rows is None:
        return made
    return replace(made, origin=batch.origin, offsets=batch.offsets.take(made.rows))


def _chosen(stage: Stage, batch: Batch, failures: list[Failure]) -> Sequence[Batch]:
    """Those for which the predicate holds, transformed, and the others."""
    if stage.predicate is None:
        return _through(stage, batch, failures)
    try:
        flags = [bool(each) is not stage.negate for each in stage.predicate.test(batch)]
    except Exception as error:
        if len(batch) > 1:
            return [
                each for row in range(len(batch)) for each in _chosen(stage, batch.slice(row, 1), failures)
            ]
        failures.append(Failure(_row(batch, 0), stage, error))
        return []
    if all(flags):
        return _through(stage, batch, failures)
    if not any(flags):
        return [batch]
    chosen = batch.take([row for row, flag in enumerate(flags) if flag])
    others = batch.take([row for row, flag in enumerate(flags) if not flag])
    return in_order([*_through(stage, chosen, failures), others])


def in_order(batches: Sequence[Batch]) -> Sequence[Batch]:
    """The records by their rows, in as few batches as can be."""
    groups: dict[tuple[object, ...], list[Batch]] = {}
    for each in batches:
        if len(each):
            groups.setdefault(kind_of(each), []).append(each)
    wholes = [concat(each) for each in groups.values()]
    if not wholes:
        return []
    rows = np.concatenate([np.asarray(each.rows) for each in wholes])
    owner = np.repeat(np.arange(len(wholes)), [len(each) for each in wholes])
    place = np.concatenate([np.arange(len(each)) for each in wholes])
    order = np.argsort(rows, kind="stable")
    owner, place = owner[order], place[order]
    cuts = np.flatnonzero(np.diff(owner)) + 1
    return [
        wholes[owner[part[0]]].take(place[part].tolist()) for part in np.split(np.arange(len(order)), cuts)
    ]


_REFUSED_IN_TURN = 3
"""So many rows of a batch may be refused one at a time, and the rest be transformed again for each."""


def _through(
    stage: Stage, batch: Batch, failures: list[Failure], in_turn: int = _REFUSED_IN_TURN
) -> Sequence[Batch]:
    """The transform's answer, without the rows that it refuses."""
    refused_alone = 0
    while len(batch):
        try:
            return _with_rows(stage.transform.apply(batch), batch)
        except Retriable:
            raise
        except BadRecords as error:
            bad = {row: BadRecord(reason, row) for row, reason in error.rows}
        except BadRecord as error:
            refused_alone += 1
            if error.index is None or len(batch) == 1 or refused_alone > in_turn:
                return _by_halves(stage, batch, failures, error)
            bad = {error.index: error}
        except Exception as error:
            return _by_halves(stage, batch, failures, error)
        failures += [Failure(_row(batch, index), stage, error) for index, error in bad.items()]
        batch = batch.take([row for row in range(len(batch)) if row not in bad])
    return []


def _by_halves(stage: Stage, batch: Batch, failures: list[Failure], error: Exception) -> Sequence[Batch]:
    """Both halves by themselves, since the transform did not say which rows are bad, or says it of one at a
    time: with b bad rows of n, b log n batches, and not b times all."""
    if len(batch) == 1:
        failures.append(Failure(_row(batch, 0), stage, error))
        return []
    half = len(batch) // 2
    first = _through(stage, batch.slice(0, half), failures, 0)
    return [*first, *_through(stage, batch.slice(half, len(batch) - half), failures, 0)]


def _row(batch: Batch, index: int) -> int:
    return int(batch.rows[index].as_py()) if batch.rows is not None else index


def _with_rows(made: Sequence[Batch], batch: Batch) -> Sequence[Batch]:
    """Batches that a function built anew do not know their rows: as many records as there were are the same
    ones, others are all said to come from the first (of a source; a sink's must be known). ConnectError."""
    if all(each.rows is not None and len(each.rows) == len(each) for each in made):
        return made
    if batch.rows is None:
        return made
    same = sum(map(len, made)) == len(batch)
    if not same and batch.offsets is not None:
        raise ConnectError(
            f"a transform made {sum(map(len, made))} records of {len(batch)} and does not say which: it has "
            "to keep Batch.rows and Batch.offsets (Batch.take does)"
        )
    found: list[Batch] = []
    at = 0
    for each in made:
        rows = batch.rows.slice(at, len(each)) if same else pa.repeat(batch.rows[0], len(each))
        found.append(replace(each, rows=rows))
        at += len(each)
    return found
