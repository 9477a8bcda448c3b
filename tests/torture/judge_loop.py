"""A consume-transform-produce loop: the output is exactly the transform of the input, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from torture.reading import Place, Seen


def judge_output(
    values: Sequence[bytes], transform: Callable[[bytes], bytes], seen: Sequence[Seen]
) -> list[str]:
    """Inputs whose output is missing or there twice, and outputs of no input."""
    expected = {transform(value): value for value in values}
    found = Counter(one.value for one in seen)
    places = {one.value: f"{one.topic}-{one.partition}@{one.offset}" for one in seen}
    complaints = [
        f"lost: nothing came out for {value!r}" for out, value in expected.items() if out not in found
    ]
    for out, count in found.items():
        if out not in expected:
            complaints.append(f"nobody put this in: {out!r} at {places[out]}")
        elif count > 1:
            complaints.append(f"{count} times: {out!r}, last at {places[out]}")
    return complaints


def judge_offsets(committed: Mapping[Place, int], ends: Mapping[Place, int]) -> list[str]:
    """A group that has read everything has committed everything."""
    return [
        f"the group stands at {committed.get(place)} of {place[0]}-{place[1]}, whose end is {end}"
        for place, end in ends.items()
        if committed.get(place) != end
    ]
