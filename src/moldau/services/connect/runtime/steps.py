"""The chain of transforms of a connector, each for all records or for those that a predicate picks.

    transforms=mask,route          predicates=isOrder
    transforms.mask.type=…         predicates.isOrder.type=…
    transforms.mask.predicate=isOrder   transforms.mask.negate=true

A transform that refuses a record, or fails over it, costs that record and not its batch: it is found (by what
the exception says, or by trying rows alone) and becomes a `Problem` of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import isclass
from typing import Any

import numpy as np
import pyarrow as pa

from moldau.connect.batch import Batch
from moldau.connect.building import joined
from moldau.connect.errors import BadRecord, BadRecords, ConnectError, Retriable
from moldau.connect.finding import find
from moldau.connect.plugins import Kind
from moldau.connect.structs import runs_of
from moldau.connect.transform import Predicate, Transform
from moldau.connect.typed_settings import required_typed
from moldau.services.connect.runtime.problems import Problem, Stage, class_name

Apply = Callable[[Batch], Sequence[Batch]]


class Step:
    """One transform, and for which records."""

    def __init__(
        self, apply: Apply, owner: object, predicate: Predicate | None = None, negate: bool = False
    ) -> None:
        self.apply = apply
        self.class_name = class_name(owner)
        self.predicate = predicate
        self.negate = negate


class Steps:
    """The whole chain."""

    def __init__(self, steps: Sequence[Step], closing: Sequence[Transform] = ()) -> None:
        self._steps = steps
        self._closing = closing

    def __bool__(self) -> bool:
        return bool(self._steps)

    def apply(self, batch: Batch) -> tuple[list[Batch], list[Problem]]:
        """What becomes of a batch, in order; `rows` of each says which rows of this batch they were."""
        problems: list[Problem] = []
        current = [replace(batch, rows=pa.array(np.arange(len(batch))))]
        for step in self._steps:
            made: list[Batch] = []
            for each in current:
                made += self._step(step, each, problems)
            current = list(joined(made))
        return current, problems

    def _step(self, step: Step, batch: Batch, problems: list[Problem]) -> Sequence[Batch]:
        if step.predicate is None:
            return _applied(step, batch, problems)
        try:
            flags = [bool(each) != step.negate for each in step.predicate.test(batch)]
        except Exception as error:
            return _alone(step, batch, error, problems, self._one)
        made: list[Batch] = []
        for first, count, chosen in runs_of(flags):
            part = batch.slice(first, count)
            made += _applied(step, part, problems) if chosen else [part]
        return made

    def _one(self, step: Step, batch: Batch) -> Sequence[Batch]:
        assert step.predicate is not None
        chosen = bool(step.predicate.test(batch)[0]) != step.negate
        return _kept(batch, step.apply(batch)) if chosen else [batch]

    def close(self) -> None:
        """Let go of what transforms hold."""
        for each in self._closing:
            each.close()


def _applied(step: Step, batch: Batch, problems: list[Problem]) -> Sequence[Batch]:
    """The batches; rows that the transform refuses are left out and become problems."""
    while len(batch):
        try:
            return _kept(batch, step.apply(batch))
        except Retriable:
            raise
        except BadRecord as error:
            found = error.rows if isinstance(error, BadRecords) else [(error.index, str(error))]
            rows = {row: reason for row, reason in found if row is not None and 0 <= row < len(batch)}
            if not rows:
                return _alone(step, batch, error, problems, lambda step, one: _kept(one, step.apply(one)))
            problems += [_problem(step, batch, row, BadRecord(reason)) for row, reason in rows.items()]
            batch = batch.take([row for row in range(len(batch)) if row not in rows])
        except Exception as error:
            return _alone(step, batch, error, problems, lambda step, one: _kept(one, step.apply(one)))
    return []


def _alone(
    step: Step,
    batch: Batch,
    error: Exception,
    problems: list[Problem],
    one: Callable[[Step, Batch], Sequence[Batch]],
) -> Sequence[Batch]:
    """Row after row, since the transform failed and did not say over which."""
    if len(batch) == 1:
        problems.append(_problem(step, batch, 0, error))
        return []
    made: list[Batch] = []
    for row in range(len(batch)):
        try:
            made += one(step, batch.slice(row, 1))
        except Retriable:
            raise
        except Exception as found:
            problems.append(_problem(step, batch, row, found))
    return joined(made)


def _problem(step: Step, batch: Batch, row: int, error: Exception) -> Problem:
    assert batch.rows is not None
    return Problem(batch.rows[row].as_py(), Stage.TRANSFORMATION, step.class_name, error)


def _kept(given: Batch, made: Batch | Sequence[Batch] | None) -> Sequence[Batch]:
    """What a transform answered, with the rows' origin also where a function of one's own left it out."""
    batches = [] if made is None else [made] if isinstance(made, Batch) else list(made)
    return [_with_origin(given, each) for each in batches if len(each)]


def _with_origin(given: Batch, made: Batch) -> Batch:
    if made.rows is not None and (given.offsets is None or made.offsets is not None):
        return made
    if len(made) != len(given):
        raise ConnectError(
            f"a transform made {len(made)} records of {len(given)} and does not say which: it has to keep "
            "Batch.rows and Batch.offsets (Batch.take does)"
        )
    return replace(made, rows=given.rows, offsets=given.offsets, origin=given.origin)


def steps_of(config: Mapping[str, str]) -> Steps:
    """The chain that a connector's settings describe. ConnectError."""
    predicates = {name: _predicate(name, config) for name in _names(config, "predicates")}
    steps: list[Step] = []
    closing: list[Transform] = []
    for name in _names(config, "transforms"):
        prefix = f"transforms.{name}."
        given = _behind(prefix, config)
        kind = find([Kind.TRANSFORM], _required(given, "type", prefix))
        apply: Any
        if isclass(kind) and issubclass(kind, Transform):
            transform = kind()
            transform.configure(required_typed(kind.settings, given, f"transforms.{name}"))
            closing.append(transform)
            apply, owner = transform.apply, transform
        else:
            apply, owner = kind, kind
        predicate = given.get("predicate")
        if predicate is not None and predicate not in predicates:
            raise ConnectError(f"{prefix}predicate names {predicate}, which is not in predicates")
        negate = given.get("negate", "false").strip().lower() == "true"
        steps.append(Step(apply, owner, None if predicate is None else predicates[predicate], negate))
    return Steps(steps, closing)


def _predicate(name: str, config: Mapping[str, str]) -> Predicate:
    prefix = f"predicates.{name}."
    given = _behind(prefix, config)
    kind = find([Kind.PREDICATE], _required(given, "type", prefix))
    made: Predicate = kind()
    made.configure(required_typed(kind.settings, given, f"predicates.{name}"))
    return made


def _names(config: Mapping[str, str], name: str) -> list[str]:
    return [each.strip() for each in config.get(name, "").split(",") if each.strip()]


def _behind(prefix: str, config: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}


def _required(given: Mapping[str, str], name: str, prefix: str) -> str:
    if not given.get(name):
        raise ConnectError(f'Missing required configuration "{prefix}{name}" which has no default value.')
    return given[name]
