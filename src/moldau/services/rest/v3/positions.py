"""Where reading begins: the parameter `from`, and the ids of events.

    beginning, end                        of every partition
    2026-11-23T10:00:00Z                  the first records at or after a time
    0:17,1:4                              offsets by partition; the others from the beginning
    17                                    an offset, where one partition is read
    ~AbC...                               the third, packed (packed_positions.py)

The id of an event, and the URL of a next page, have the form of the third, or of the last where there are
very many partitions: the positions of all partitions after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moldau.client.cluster import Cluster
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3.fields import shown
from moldau.services.rest.v3.packed_positions import MARK, packed, unpacked
from moldau.services.rest.v3.produced_record import timestamp_of

_LATEST, _EARLIEST = -1, -2
PLAIN_PARTITIONS_MAX = 100
"""Positions of more partitions are packed."""
_PAIRS = re.compile(r"\d{1,10}:\d{1,19}(,\d{1,10}:\d{1,19})*")
_NUMBER = re.compile(r"\d{1,19}")
_ENDS = {"beginning": _EARLIEST, "earliest": _EARLIEST, "end": _LATEST, "latest": _LATEST}


@dataclass(frozen=True, slots=True)
class Start:
    """Offsets by partition, and for the other partitions a time as ListOffsets takes it (-2, -1, ms)."""

    offsets: Mapping[int, int]
    time: int


def parse_start(text: str, partitions: Sequence[int]) -> Start:
    """Understand `from` for these partitions. HttpProblem 400."""
    if text.lower() in _ENDS:
        return Start({}, _ENDS[text.lower()])
    if _NUMBER.fullmatch(text):
        if len(partitions) != 1:
            raise HttpProblem(
                400, f"from={text} is an offset, which needs one partition: name it with partition."
            )
        return Start({partitions[0]: int(text)}, _EARLIEST)
    if text.startswith(MARK) or _PAIRS.fullmatch(text):
        return Start(parse_positions(text), _EARLIEST)
    try:
        return Start({}, max(0, timestamp_of(text, "from")))
    except HttpProblem:
        raise HttpProblem(
            400,
            "from must be beginning, end, a time like 2026-11-23T10:00:00Z, or offsets by partition like "
            f"0:17,1:4, and not {shown(text)}.",
        ) from None


def parse_positions(text: str) -> dict[int, int]:
    """Offsets by partition. HttpProblem 400."""
    if text.startswith(MARK):
        try:
            return unpacked(text)
        except ValueError:
            raise HttpProblem(400, f"{shown(text)} is no packed list of positions.") from None
    if not _PAIRS.fullmatch(text):
        raise HttpProblem(400, f"{shown(text)} is no list of partition:offset.")
    pairs = (each.split(":") for each in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


def positions_text(positions: Mapping[int, int]) -> str:
    """A form that `parse_positions` reads."""
    if len(positions) > PLAIN_PARTITIONS_MAX:
        return packed(positions)
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def resolve(cluster: Cluster, topic: str, partitions: Sequence[int], start: Start) -> Resolved:
    """The offsets at which reading begins and, at this moment, ends.

    An offset that is no longer there becomes the first that is, one that is not there yet becomes the end.
    """
    places = [(topic, each) for each in partitions]
    first = cluster.offsets(dict.fromkeys(places, _EARLIEST))
    ends = cluster.offsets(dict.fromkeys(places, _LATEST), read_committed=True)
    timed = first
    if start.time == _LATEST:
        timed = ends
    elif start.time != _EARLIEST:
        timed = cluster.offsets(dict.fromkeys(places, start.time))
    begins = {}
    for partition in partitions:
        place = (topic, partition)
        offset = start.offsets.get(partition, timed[place])
        if offset < 0:
            offset = ends[place]  # no record is as young as the time
        begins[partition] = max(first[place], min(offset, ends[place]))
    return Resolved(begins, {each: ends[topic, each] for each in partitions})


@dataclass(frozen=True, slots=True)
class Resolved:
    """Offsets by partition."""

    begins: dict[int, int]
    ends: dict[int, int]
