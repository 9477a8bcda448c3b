"""`-o`: the offsets at which reading a topic begins and ends.

    start  beginning  earliest      from the first record           end  latest   only new records
    100    +5    -5                 an offset; 5 after the first; 5 before the end
    @1h    @2026-02-14              from a timestamp on (timestamps.py)
    FROM:TO   :end   100:200   @-2h:-1h    the same with an end, which is not included; reading stops there

`OffsetRange` is the parsed text; `resolve` asks the cluster for the offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.tools.shared.errors import UsageError
from moldau.tools.shared.timestamps import parse_moment_ms

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

START_WORDS = ("start", "beginning", "earliest")
END_WORDS = ("end", "latest")


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: kind is start, end, offset, after_start, before_end or moment (value in ms)."""

    kind: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Where reading starts, and where it stops (None: never)."""

    start: Bound
    stop: Bound | None = None


def parse_offset_range(text: str, now_ms: int) -> OffsetRange:
    """Parse the word after -o. The UsageError shows the possible forms."""
    if text.startswith("@"):
        first, second = _split_moments(text[1:], now_ms)
        start = Bound("moment", parse_moment_ms(first, now_ms)) if first else Bound("start")
        if second is None or second == "":
            return OffsetRange(start)
        if second in END_WORDS:
            return OffsetRange(start, Bound("end"))
        return OffsetRange(start, Bound("moment", parse_moment_ms(second.removeprefix("@"), now_ms)))
    first, colon, second = text.partition(":")
    start = _bound(first, text) if first else Bound("start")
    return OffsetRange(start, _bound(second, text) if colon and second else None)


def _split_moments(text: str, now_ms: int) -> tuple[str, str | None]:
    """Split T1:T2, where T1 and T2 may contain colons: the first split where both sides parse."""
    candidates = [index for index, character in enumerate(text) if character == ":"]
    for index in candidates:
        first, second = text[:index], text[index + 1 :].removeprefix("@")
        if all(part in ("", *END_WORDS) or _is_moment(part, now_ms) for part in (first, second)):
            return first, second
    return text, None


def _is_moment(text: str, now_ms: int) -> bool:
    try:
        parse_moment_ms(text, now_ms)
    except UsageError:
        return False
    return True


def _bound(word: str, whole: str) -> Bound:
    if word in START_WORDS:
        return Bound("start")
    if word in END_WORDS:
        return Bound("end")
    if word.isdigit():
        return Bound("offset", int(word))
    if word[:1] in "+-" and word[1:].isdigit():
        return Bound("after_start" if word[0] == "+" else "before_end", int(word[1:]))
    raise UsageError(
        f"-o {whole!r} is not understood: write start, end, an offset, -N (the last N), @MOMENT, or FROM:TO"
    )


def resolve(
    cluster: Cluster,
    bound: Bound,
    partitions: Sequence[tuple[str, int]],
    *,
    read_committed: bool = False,
) -> dict[tuple[str, int], int]:
    """Ask the cluster for the offset of `bound` in each partition: the end, where no record is as late. With
    `read_committed` the end is the last stable offset.
    """
    from moldau.client.offsets import EARLIEST, LATEST

    if bound.kind == "offset":
        return dict.fromkeys(partitions, bound.value)
    if bound.kind == "start":
        return cluster.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = cluster.offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)
    if bound.kind == "moment":
        found = cluster.offsets(dict.fromkeys(partitions, max(0, bound.value)))
        return {each: ends[each] if offset < 0 else offset for each, offset in found.items()}
    if bound.kind == "end":
        return ends
    starts = cluster.offsets(dict.fromkeys(partitions, EARLIEST))
    if bound.kind == "after_start":
        return {each: min(starts[each] + bound.value, end) for each, end in ends.items()}
    return {each: max(end - bound.value, starts[each]) for each, end in ends.items()}
