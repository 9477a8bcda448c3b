"""Where reading begins: newest, oldest, an offset or a moment, turned into an offset for each partition.

For the newest N records of P partitions each partition is read from N / P before its end, and further back
where the first look found too few (browsing.py): a topic whose records lie in few partitions is read there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.services.console.facts.snapshot import Ends

STARTS = ("newest", "oldest", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of one partition that may be read: [start, end)."""

    start: int
    end: int

    @property
    def count(self) -> int:
        """Offsets, of which some may have no record."""
        return max(0, self.end - self.start)


def oldest(ends: Mapping[int, Ends]) -> dict[int, Span]:
    """From the first record of each partition."""
    return {index: Span(each.start, each.end) for index, each in ends.items()}


def from_offset(ends: Mapping[int, Ends], offset: int) -> dict[int, Span]:
    """From an offset on, where partitions have it; negative: so many before the end."""
    if offset < 0:
        return {index: Span(max(each.start, each.end + offset), each.end) for index, each in ends.items()}
    return {index: Span(min(max(each.start, offset), each.end), each.end) for index, each in ends.items()}


def from_moments(ends: Mapping[int, Ends], found: Mapping[int, int]) -> dict[int, Span]:
    """From the offsets that a lookup by time found; -1 means no record is as late."""
    return {
        index: Span(each.end if found.get(index, -1) < 0 else max(each.start, found[index]), each.end)
        for index, each in ends.items()
    }


def newest(spans: Mapping[int, Span], count: int) -> dict[int, Span]:
    """The last offsets of each span, together at least `count` where there are as many."""
    shares = _shares(spans, count)
    return {index: Span(each.end - shares.get(index, 0), each.end) for index, each in spans.items()}


def first(spans: Mapping[int, Span], count: int) -> dict[int, Span]:
    """The first offsets of each span, together at least `count` where there are as many."""
    shares = _shares(spans, count)
    return {index: Span(each.start, each.start + shares.get(index, 0)) for index, each in spans.items()}


def _shares(spans: Mapping[int, Span], count: int) -> dict[int, int]:
    """What a short partition does not have is taken from longer ones."""
    lengths = sorted((each.count, index) for index, each in spans.items() if each.count)
    shares: dict[int, int] = {}
    left = count
    for position, (length, index) in enumerate(lengths):
        share = min(length, -(-left // (len(lengths) - position)))
        shares[index] = share
        left = max(0, left - share)
    return shares


CURSOR_PARTITIONS_MAX = 200


def cursor_text(offsets: Mapping[int, int]) -> str:
    """Offsets of partitions for a URL, as 0.812-1.400; empty where there are too many for one."""
    if len(offsets) > CURSOR_PARTITIONS_MAX:
        return ""
    return "-".join(f"{index}.{offset}" for index, offset in sorted(offsets.items()))


def cursor_of(text: str) -> dict[int, int]:
    """The offsets of such a text; what cannot be read is left out."""
    found: dict[int, int] = {}
    for part in text.split("-")[:CURSOR_PARTITIONS_MAX]:
        index, dot, offset = part.partition(".")
        if dot and _digits(index) and _digits(offset):
            found[int(index)] = int(offset)
    return found


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63
