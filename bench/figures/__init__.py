"""The figures, one module each. A figure measures one broker once and gives numbers by name; `bench.commands`
repeats it, takes turns between the brokers and keeps the medians.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    section: str = ""  # figures of one section share a table, a line each, and a command that runs them all
    brokers: tuple[str, ...] = ("moldau", "kafka")  # those that it makes sense for


@dataclass(frozen=True, slots=True)
class Section:
    """A table of several figures."""

    name: str
    title: str
    table: Callable[[Sequence[Figure], Mapping[str, Any]], str]  # given the results of all figures


def all_figures() -> dict[str, Figure]:
    """By name, in the order of the table."""
    from bench.figures import (
        cluster_catch_up,
        cluster_latency,
        cluster_lost_leaders,
        cluster_memory,
        cluster_scale,
        cluster_throughput,
        compaction,
        compressed,
        connect_data,
        failover,
        hostile,
        kit_consume,
        kit_table,
        latency,
        long_log,
        memory,
        partitions,
        pipelines,
        registry,
        requests,
        rest,
        schemas,
        security_acls,
        security_connections,
        security_logins,
        security_requests,
        security_throughput,
        startup,
        throughput,
        tools,
        transactions,
    )

    modules = (
        requests,
        throughput,
        compressed,
        latency,
        startup,
        memory,
        partitions,
        long_log,
        transactions,
        compaction,
        failover,
        cluster_throughput,
        cluster_latency,
        cluster_memory,
        cluster_lost_leaders,
        cluster_catch_up,
        cluster_scale,
        security_throughput,
        security_requests,
        security_logins,
        security_acls,
        security_connections,
        pipelines,
        kit_consume,
        kit_table,
        registry,
        rest,
        schemas,
        connect_data,
    )
    figures = [module.FIGURE for module in modules] + list(hostile.FIGURES) + [tools.START, tools.LOAD]
    return {figure.name: figure for figure in figures}


CLUSTERS = (
    "failover",
    "cluster-throughput",
    "cluster-latency",
    "cluster-memory",
    "cluster-catch-up",
    "cluster-scale",
    "cluster-lost-leaders",
)
"""Figures of whole clusters, in the order in which `python -m bench clusters` takes them."""

SECURITY = (
    "security-throughput",
    "security-requests",
    "security-logins",
    "security-acls",
    "security-connections",
)
"""Figures of secured brokers, in the order in which `python -m bench security` takes them."""


def all_sections() -> dict[str, Section]:
    """By name, in the order of the page; they stand behind the figures that have a table of their own."""
    from bench.figures import hostile

    return {hostile.SECTION.name: hostile.SECTION}
