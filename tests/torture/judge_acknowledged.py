"""Numbered records of one idempotent producer, against what was acknowledged.

Nothing is lost, moved, twice, or out of order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from torture.reading import Seen


def judge_acknowledged(acknowledged: Mapping[int, int], seen: Sequence[Seen]) -> list[str]:
    """`acknowledged` maps a number to the offset that was acknowledged; a value is its number in digits."""
    complaints: list[str] = []
    values = [int(one.value or b"-1") for one in seen]
    by_offset = {one.offset: number for one, number in zip(seen, values, strict=True)}
    lost = [number for number, offset in acknowledged.items() if by_offset.get(offset) != number]
    if lost:
        span = f"from {min(lost)} to {max(lost)}"
        complaints.append(f"lost or moved: {len(lost)} of {len(acknowledged)} acknowledged records, {span}")
    twice = [number for number, count in Counter(values).items() if count > 1]
    if twice:
        complaints.append(f"twice: {twice[:10]}")
    if values != sorted(values):
        complaints.append("the order of one producer changed")
    return complaints
