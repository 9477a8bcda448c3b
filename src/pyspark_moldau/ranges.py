"""Divides a micro-batch's offsets among tasks; arithmetic only.

    new offsets  --limit-->  this micro-batch  --split-->  ranges  --share-->  tasks

`limited` gives each partition its share of maxOffsetsPerTrigger, by the number of its new offsets. `split`
cuts large ranges for minPartitions and maxRecordsPerPartition. `shared` puts small ranges together: a task of
a Python data source costs some ten milliseconds, far more than reading a hundred records.

Offsets stand for records, though a range may hold fewer (compaction, transaction markers).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyspark_moldau.offsets import Offsets, TopicPartition

SMALL_TASK_OFFSETS = 2000
"""Ranges are put together into a task until it has so many offsets."""


class Range(NamedTuple):
    """The records of a partition from `start` to `end` (exclusive)."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], offsets_max: int
) -> Offsets:
    """The end offsets so that about `offsets_max` offsets are read, proportionally to what each partition
    has.

    A partition with anything to read gets at least one offset.
    """
    waiting = {partition: latest[partition] - start[partition] for partition in latest}
    total = sum(count for count in waiting.values() if count > 0)
    if total <= offsets_max:
        return dict(latest)
    end: Offsets = {}
    for partition, count in waiting.items():
        # Whole numbers all the way: a float would lose offsets beyond 2**53.
        share = max(1, offsets_max * count // total)
        end[partition] = start[partition] + min(count, share) if count > 0 else latest[partition]
    return end


def split(ranges: Iterable[Range], tasks_min: int | None, offsets_max: int | None) -> list[Range]:
    """Cut ranges so that they are about `tasks_min`, each of at most `offsets_max` offsets."""
    whole = [one for one in ranges if one.size > 0]
    if offsets_max is not None:
        whole = [part for one in whole for part in _cut(one, math.ceil(one.size / offsets_max))]
    if tasks_min is None or tasks_min <= len(whole):
        return whole
    total = sum(one.size for one in whole)
    return [part for one in whole for part in _cut(one, max(1, round(tasks_min * one.size / total)))]


def _cut(one: Range, pieces: int) -> list[Range]:
    pieces = min(pieces, one.size)
    edges = [one.start + one.size * index // pieces for index in range(pieces + 1)]
    return [Range(one.topic, one.partition, edges[index], edges[index + 1]) for index in range(pieces)]


def shared(ranges: Sequence[Range], small: int = SMALL_TASK_OFFSETS) -> list[tuple[Range, ...]]:
    """Put ranges into tasks: a large one alone, small ones together up to `small` offsets."""
    tasks: list[tuple[Range, ...]] = []
    gathered: list[Range] = []
    for one in ranges:
        if one.size >= small:
            tasks.append((one,))
            continue
        gathered.append(one)
        if sum(each.size for each in gathered) >= small:
            tasks.append(tuple(gathered))
            gathered = []
    if gathered:
        tasks.append(tuple(gathered))
    return tasks
