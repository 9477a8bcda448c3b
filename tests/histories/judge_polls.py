"""Does each consumer see everything from its position on, in order?

From one poll to the next a consumer goes on where it was: an offset below its position is a step back, an
offset that some reader of its isolation saw and it passed by is a skip. A poll with `began` takes a position
of its own (an assignment, a seek).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from histories.complaint import POLL_BACK, POLL_SKIP, Complaint, at
from histories.history import Place, Poll
from histories.index import Index


def judge_polls(index: Index, counts: Counter[str]) -> Iterator[Complaint]:
    """Every poll against the one before it and what others saw."""
    positions: dict[tuple[str, Place], int] = {}
    for poll in index.history.polls:
        counts["polls"] += 1
        key = (poll.consumer, poll.place)
        before = positions.get(key) if poll.began is None else poll.began
        position = poll.records[0][0] if before is None and poll.records else before
        positions[key] = poll.position
        if position is None:
            continue
        for offset, value in poll.records:
            if offset < position:
                text = (
                    f"{poll.consumer} read {value} at {at(poll.place, offset)}, its position was {position}"
                )
                yield Complaint(POLL_BACK, text)
            yield from _skipped(index, poll, position, offset)
            position = max(position, offset + 1)
        if poll.position < position:
            text = f"{poll.consumer} went back from {at(poll.place, position)} to {poll.position}"
            yield Complaint(POLL_BACK, text)
        yield from _skipped(index, poll, position, poll.position)


def _skipped(index: Index, poll: Poll, start: int, end: int) -> Iterator[Complaint]:
    if end <= start:
        return
    passed = index.known_between(poll.place, start, end, committed=poll.committed)
    if passed:
        value = index.values[poll.place, passed[0]]
        text = f"{poll.consumer} passed by {value} at {at(poll.place, passed[0])}, and {len(passed) - 1} more"
        yield Complaint(POLL_SKIP, text)
