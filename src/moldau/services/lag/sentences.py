"""A verdict in words: what happens, to which record, since when, and who holds the partition."""

from __future__ import annotations

from moldau.services.lag.store import GroupStatus, PartitionStatus
from moldau.services.lag.verdicts import Verdict

_SAYS = {
    Verdict.STOP: "has committed nothing since offset {offset}, {held} ago",
    Verdict.STALL: "has stood at offset {offset} for {held}, though it commits",
    Verdict.REWIND: "went back to offset {offset} and has not come back to where it was",
    Verdict.WARN: "moves, and falls behind: {lag:,} records now, {first:,} when the window began",
}
"""By verdict; the subject is the partition."""


def sentence(status: GroupStatus, now_ms: int) -> str:
    """One line about a group: its worst partition, and how many others are not well."""
    unwell = [each for each in status.partitions if each.verdict > Verdict.OK]
    if not unwell:
        return f"{status.group} is {_behind(status.total_lag)}."
    worst = max(unwell, key=lambda each: (each.verdict, each.lag))
    line = partition_sentence(worst, now_ms)
    others = len(unwell) - 1
    return f"{status.group}: {line}" + (f" {others} more of its partitions are not well." if others else "")


def partition_sentence(status: PartitionStatus, now_ms: int) -> str:
    """One sentence about a partition."""
    name = f"{status.topic}-{status.partition}"
    if status.verdict not in _SAYS or status.end is None or status.start is None:
        return f"{name} is {_behind(status.lag)}."
    since = status.end.timestamp_ms if status.verdict == Verdict.STOP else status.held_since_ms
    said = _SAYS[status.verdict].format(
        offset=status.end.offset,
        held=duration((now_ms - (since or now_ms)) / 1000),
        lag=status.lag,
        first=status.start.lag or 0,
    )
    holder = status.client_id or "no member holds it"
    if status.owner and status.client_id:
        holder = f"member {status.client_id} at {status.owner} holds it"
    behind = _behind(status.lag)
    age = f", the oldest unread record is {duration(status.lag_seconds)} old" if status.lag_seconds else ""
    return f"{name} {said}; {holder}; it is {behind}{age}."


def _behind(lag: int) -> str:
    return "at the end" if not lag else f"{lag:,} record{'s' * (lag != 1)} behind"


def duration(seconds: float) -> str:
    """In the two largest units: `42 s`, `7 min`, `3 h 5 min`, `2 d 4 h`."""
    whole = int(max(0, seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"
