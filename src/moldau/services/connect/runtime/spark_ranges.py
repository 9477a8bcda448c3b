"""Which records a micro-batch has, and where its runs end. Pure.

    checkpoint, offsets/7:   v1 \\n {metadata} \\n {"topic":{"0":12000}}     where micro-batch 7 ends
    range [0, 12000)         runs end at 5000, 10000, 12000; noted before it is written

A run ends at an offset, not after a number of records: so its end is known before anything is read, and is
the same whatever compaction has left of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.connect.batch import TopicPartition
from moldau.connect.errors import ConnectError

RUN_OFFSETS = 5_000
RUNS_MAX = 100
"""Of a range: so many ends fit into the metadata of an offset (sink_notes.py)."""
TRIGGER_OFFSETS_MAX = 5_000_000
"""Of a micro-batch, so that a run has at most 50,000 records."""


class Range(NamedTuple):
    """Offsets from `start` up to, not including, `end`."""

    start: int
    end: int


Ends = Mapping[TopicPartition, int]


def ends_of(text: str) -> dict[TopicPartition, int]:
    """A file of Spark's log of offsets, of a query with one source. ConnectError."""
    try:
        version, _, offsets = text.strip().split("\n", 2)
        if version != "v1":
            raise ValueError(f"its version is {version}")
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in json.loads(offsets).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as problem:
        raise ConnectError(f"Spark's log of offsets is not understood: {problem}") from problem


def ranges_of(starts: Ends, ends: Ends) -> dict[TopicPartition, Range]:
    """What lies between, where there is something; a partition whose start is not known has none."""
    return {
        place: Range(starts[place], end)
        for place, end in ends.items()
        if place in starts and end > starts[place]
    }


def run_ends(found: Range) -> list[int]:
    """Where the runs of a range end, rising; the last one with the range."""
    step = max(RUN_OFFSETS, -(-(found.end - found.start) // RUNS_MAX))
    return [*range(found.start + step, found.end, step), found.end]


def next_end(ends: Sequence[int], offset: int) -> int | None:
    """The end of the run that has this offset; None: it lies behind the last one."""
    return next((each for each in ends if each > offset), None)
