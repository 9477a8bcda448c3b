"""Large requests to a coordinator, put to it a few rows at a time.

A coordinator decides at once and holds the loop meanwhile: some 15 µs for a committed offset. A request with
more than ROWS_AT_ONCE rows is cut into requests of so many rows, which are put to it in slices, and the
answers are put together again:

    topics  | t: 0 1 2 ... 99 | u: 0 1 |   ->   | t: 0 ... 63 |  | t: 64 ... 99, u: 0 1 |

Each piece is decided on by itself, as if the client had sent several requests one behind the other: a group
that begins to rebalance in between refuses the rest. All pieces are on their way before the first answer is
waited for, so that they share appends. Invariant: each row is answered once, in the order of the request.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.waiting import Answer, settled
from moldau.common.protocol.declare import Struct

ROWS_AT_ONCE = 64

Piece = list[tuple[int, Any]]
"""Parts of topics, each with the topic's place in the request."""


def has_many_rows(topics: Sequence[Struct], rows: str, rows_max: int = ROWS_AT_ONCE) -> bool:
    """Whether the lists named `rows` of these topics have more than `rows_max` rows together."""
    left = rows_max
    for topic in topics:
        left -= 1 + len(getattr(topic, rows))
        if left < 0:
            return True
    return False


def cut(topics: Iterable[Struct], rows: str) -> Iterator[Piece]:
    """The topics in pieces of up to ROWS_AT_ONCE rows (a topic without rows counts as one)."""
    piece: Piece = []
    room = ROWS_AT_ONCE
    for place, topic in enumerate(topics):
        all_rows = getattr(topic, rows)
        start = 0
        while True:
            taken = all_rows[start : start + room]
            piece.append((place, _with_rows(topic, rows, taken)))
            start += len(taken)
            room -= max(1, len(taken))
            if room <= 0:
                yield piece
                piece, room = [], ROWS_AT_ONCE
            if start >= len(all_rows):
                break
    if piece:
        yield piece


def _with_rows(topic: Struct, rows: str, taken: Sequence[Any]) -> Struct:
    values = {name: getattr(topic, name) for name in topic.FIELDS}
    values[rows] = taken
    return type(topic)(**values)


async def by_rows(
    lane: SlowLane,
    topics: Sequence[Struct],
    rows: str,
    ask: Callable[[list[Any]], Answer[list[Any]]],
    *,
    first_alone: bool = False,
) -> list[Any]:
    """Ask for the topics piece by piece; the topics of all answers, put together.

    `ask` gives the answer's topics (with their rows in `partitions`) for the topics that it is given, in
    their order. With `first_alone` the rest is asked only when the first piece is
    answered.
    """
    slices = lane.slices()
    answers: list[tuple[list[int], Answer[list[Any]]]] = []
    with lane.paused_collector():
        for piece in cut(topics, rows):
            answer = ask([part for _, part in piece])
            if first_alone and not answers:
                answer = await settled(answer)
            answers.append(([place for place, _ in piece], answer))
            if slices.spent():
                await slices.next_slice()
    together: dict[int, Any] = {}
    for places, answer in answers:
        for place, answered in zip(places, await settled(answer), strict=True):
            known = together.get(place)
            if known is None:
                together[place] = answered
            else:
                known.partitions.extend(answered.partitions)
        if slices.spent():
            await slices.next_slice()
    return list(together.values())


async def by_ids(
    lane: SlowLane, ids: Sequence[str], ask: Callable[[list[str]], Answer[list[Any]]]
) -> list[Any]:
    """Ask for each id once, some at a time; `ask` gives the list that belongs to its ids."""
    slices = lane.slices()
    asked: set[str] = set()
    answers: list[Answer[list[Any]]] = []
    with lane.paused_collector():
        for start in range(0, len(ids), ROWS_AT_ONCE):
            piece = [each for each in dict.fromkeys(ids[start : start + ROWS_AT_ONCE]) if each not in asked]
            asked.update(piece)
            if piece:
                answers.append(ask(piece))
            if slices.spent():
                await slices.next_slice()
    together: list[Any] = []
    for answer in answers:
        together += await settled(answer)
        if slices.spent():
            await slices.next_slice()
    return together
