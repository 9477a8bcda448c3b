"""The lag of a query, from Spark's report of a micro-batch.

Spark's own Kafka connector reports it in `lastProgress.sources[n].metrics`. A Python source cannot: Spark
asks it for no metrics (docs/spark-source.md). But the report has each partition's end and position, and their
difference is the same:

    offsets_behind_latest(query.lastProgress.sources[0])
    # {"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 12, "avgOffsetsBehindLatest": 4.0}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark_moldau.offsets import Offsets


def offsets_behind_latest(source: Any) -> dict[str, float]:
    """The metrics of Spark's connector, from a `SourceProgress` or a progress's JSON as a mapping.

    Empty if a position is missing, as before the first micro-batch.
    """
    if isinstance(source, Mapping):
        end, latest = source.get("endOffset"), source.get("latestOffset")
    else:
        end, latest = source.endOffset, source.latestOffset
    behind = list((behind_by_partition(end, latest) or {}).values())
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def behind_by_partition(end: object, latest: object) -> Offsets | None:
    """Offsets between two positions as Spark reports them, such as {"flights": {"0": 12}}.

    None if one of them is no position. A partition of which nothing was read yet counts from 0.
    """
    ends, latests = _positions(end), _positions(latest)
    if ends is None or latests is None:
        return None
    return {one: max(offset - ends.get(one, 0), 0) for one, offset in latests.items()}


def _positions(position: object) -> Offsets | None:
    if isinstance(position, str):
        try:
            position = json.loads(position)
        except ValueError:
            return None
    if not isinstance(position, Mapping):
        return None
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in position.items()
        if isinstance(partitions, Mapping)
        for partition, offset in partitions.items()
    }
