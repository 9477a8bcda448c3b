"""Numbers squared and counted by window: each result is there, is right, and is there once if so promised."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from torture.pipeline import SQUARES, WINDOW, WINDOWS
from torture.reading import Seen

Result = tuple[int, ...]


def expected_results(numbers: Sequence[int], closed_before: int) -> dict[str, set[Result]]:
    """What must come out: (n, square) of every number; (start, count, sum) of windows that end by then."""
    inside: dict[int, list[int]] = {}
    for number in numbers:
        inside.setdefault(number // WINDOW * WINDOW, []).append(number)
    closed = {start: found for start, found in inside.items() if start + WINDOW <= closed_before}
    return {
        SQUARES: {(number, number * number) for number in numbers},
        WINDOWS: {(start, len(found), sum(found)) for start, found in closed.items()},
    }


def judge_results(
    expected: Mapping[str, set[Result]], seen: Iterable[Seen], *, once: bool = True
) -> list[str]:
    """Results that are missing, wrong or, if each was promised once, there more than once."""
    found: dict[str, Counter[Result]] = {topic: Counter() for topic in expected}
    places: dict[tuple[str, Result], list[str]] = {}
    for one in seen:
        result = tuple(json.loads(one.value or b"{}").values())
        found[one.topic][result] += 1
        places.setdefault((one.topic, result), []).append(f"{one.partition}@{one.offset}")
    complaints = []
    for topic, wanted in expected.items():
        missing = sorted(wanted - found[topic].keys())
        complaints += [f"{topic}: {result} is missing" for result in missing]
        for result, count in found[topic].items():
            where = ", ".join(places[topic, result])
            if result not in wanted:
                complaints.append(f"{topic}: {result} at {where} is no result of what was put in")
            elif once and count > 1:
                complaints.append(f"{topic}: {result} is there {count} times, at {where}")
    return complaints
