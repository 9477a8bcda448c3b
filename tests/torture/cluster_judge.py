"""What the checker of histories does not judge: that copies are there once, and that replicas are equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from histories.history import ACKNOWLEDGED, History, Place

SHOWN = 10


def judge_copies(history: History, source: str, target: str) -> Iterator[str]:
    """Every committed record of the source has one committed copy, whose value ends with its original's."""
    originals = [value for place, rows in history.final.items() if place[0] == source for _, value in rows]
    copies = Counter(
        value.partition(":")[2]
        for place, rows in history.final.items()
        if place[0] == target
        for _, value in rows
    )
    missing = [value for value in originals if not copies[value]]
    if missing:
        yield f"{len(missing)} records were not copied: {', '.join(missing[:SHOWN])}"
    twice = [f"{value} ({count})" for value, count in copies.items() if count > 1]
    if twice:
        yield f"{len(twice)} records were copied more than once: {', '.join(twice[:SHOWN])}"
    unknown = sorted(set(copies) - set(originals))
    if unknown:
        yield f"{len(unknown)} copies of records that were never committed: {', '.join(unknown[:SHOWN])}"


def judge_replicas(folders: Mapping[int, Path], places: Iterable[Place]) -> Iterator[str]:
    """After a clean stop, all replicas of a partition hold the same bytes (segments may be cut elsewhere)."""
    for topic, partition in places:
        found = {
            node: b"".join(
                each.read_bytes() for each in sorted((folder / f"{topic}-{partition}").glob("*.log"))
            )
            for node, folder in folders.items()
            if (folder / f"{topic}-{partition}").is_dir()
        }
        if len(found) < 2:
            yield f"{topic}-{partition} lies on brokers {sorted(found)} only"
            continue
        first, *others = sorted(found)
        for node in others:
            if found[node] != found[first]:
                at = _first_difference(found[first], found[node])
                yield (
                    f"{topic}-{partition}: brokers {first} and {node} differ from byte {at} on "
                    f"({len(found[first])} and {len(found[node])} bytes)"
                )


def _first_difference(one: bytes, other: bytes) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def longest_pauses(history: History, topic: str) -> dict[Place, float]:
    """For each partition, the longest time in seconds in which no record was acknowledged."""
    times: dict[Place, list[float]] = {}
    for send in history.sends:
        if send.place[0] == topic and send.outcome == ACKNOWLEDGED:
            times.setdefault(send.place, []).append(send.ended_s)
    return {
        place: max((after - before for before, after in pairwise(found)), default=0.0)
        for place, found in ((place, sorted(each)) for place, each in times.items())
    }
