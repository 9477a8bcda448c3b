"""The assignor of share groups, "simple": members may have partitions in common.

Of the partitions that the same members read:

    members <= partitions   each partition has one member, and members have as many as any other, or one more
    members > partitions    each member has one partition, and partitions have as many members as any other,
    or
                            one more

Who had a partition before keeps it as far as that allows, so that little changes when somebody comes or goes.
A pure function, like the others; the result does not depend on the order of members.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from moldau.broker.coordinator.group.assignors.spec import Assignment

Place = tuple[bytes, int]
Item = TypeVar("Item", bound=Hashable)
Bin = TypeVar("Bin", bound=Hashable)


def assign_simply(
    subscriptions: Mapping[str, frozenset[bytes]],
    assignable: Mapping[bytes, frozenset[int]],
    previous: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Each member's partitions. `assignable` has the partitions that may be assigned."""
    chosen: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in subscriptions}
    for members, topic_ids in _alike(subscriptions, assignable):
        places = [(topic_id, index) for topic_id in topic_ids for index in sorted(assignable[topic_id])]
        had = {
            member_id: [
                (topic_id, index)
                for topic_id in topic_ids
                for index in previous.get(member_id, {}).get(topic_id, ())
            ]
            for member_id in members
        }
        for member_id, (topic_id, index) in _pairs(members, places, had):
            chosen[member_id].setdefault(topic_id, set()).add(index)
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in topics.items()}
        for member_id, topics in chosen.items()
    }


def _alike(
    subscriptions: Mapping[str, frozenset[bytes]], assignable: Mapping[bytes, frozenset[int]]
) -> list[tuple[list[str], list[bytes]]]:
    """Topics with the same readers together, with these readers."""
    readers: dict[bytes, list[str]] = {}
    for member_id in sorted(subscriptions):
        for topic_id in subscriptions[member_id]:
            if topic_id in assignable:
                readers.setdefault(topic_id, []).append(member_id)
    together: dict[tuple[str, ...], list[bytes]] = {}
    for topic_id in sorted(readers):
        together.setdefault(tuple(readers[topic_id]), []).append(topic_id)
    return [(list(members), topic_ids) for members, topic_ids in together.items()]


def _pairs(members: list[str], places: list[Place], had: dict[str, list[Place]]) -> list[tuple[str, Place]]:
    if not places:
        return []
    before = [(member_id, place) for member_id in members for place in sorted(had[member_id])]
    if len(members) > len(places):
        return _spread(members, places, before)
    placed = _spread(places, members, [(place, member_id) for member_id, place in before])
    return [(member_id, place) for place, member_id in placed]


def _spread(
    items: Sequence[Item], bins: Sequence[Bin], before: Iterable[tuple[Item, Bin]]
) -> list[tuple[Item, Bin]]:
    """Put each item into one bin, so that none has two more than another; where it was `before`, if it
    can."""
    least, more = divmod(len(items), len(bins))
    counts = dict.fromkeys(bins, 0)
    where: dict[Item, Bin] = {}
    known = set(items)
    for item, each in before:
        if item in where or item not in known or each not in counts:
            continue
        if counts[each] < least or (counts[each] == least and more > 0):
            more -= counts[each] == least
            counts[each] += 1
            where[item] = each
    free = iter([item for item in items if item not in where])
    for each in bins:
        for item in islice(free, max(0, least - counts[each])):
            where[item] = each
            counts[each] += 1
    where.update(zip(free, [each for each in bins if counts[each] == least], strict=False))
    return [(item, where[item]) for item in items]
