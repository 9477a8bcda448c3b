"""The figures, one module each. A figure measures one broker once and gives numbers by name; `bench.commands`
repeats it, takes turns between the brokers and keeps the medians.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.brokers import BrokerProcess

Values = Mapping[str, float]
Start = Callable[
    ..., BrokerProcess
]  # start(**settings): a fresh broker, not yet started, freed by the caller


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: the value's name, how it is written, and what the project promises for it."""

    key: str
    title: str
    unit: str
    digits: int = 1
    promise: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """A column of the table where not brokers are compared: each against a Moldau broker."""

    title: str
    measure: Callable[[Start], Values]
    version: Callable[[], str] | None = None  # else Moldau's


@dataclass(frozen=True, slots=True)
class Figure:
    """A measurement under a name for the command line: of brokers by `measure`, or of `subjects`."""

    name: str
    title: str
    measure: Callable[[Start], Values] | None
    rows: tuple[Row, ...]
    note: str = ""
    subjects: Mapping[str, Subject] = field(default_factory=dict)


def all_figures() -> dict[str, Figure]:
    """By name, in the order of the table."""
    from bench.figures import (
        compaction,
        latency,
        long_log,
        memory,
        partitions,
        pipelines,
        requests,
        startup,
        throughput,
        transactions,
    )

    modules = (
        requests,
        throughput,
        latency,
        startup,
        memory,
        partitions,
        long_log,
        transactions,
        compaction,
        pipelines,
    )
    return {module.FIGURE.name: module.FIGURE for module in modules}
