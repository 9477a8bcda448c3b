"""Where the copies of a topic go: over the named brokers, evenly, moving as few as that takes. Pure.

    stay     a copy stays where it is while its broker is named
    fill     missing copies go to the named brokers that have least
    level    while a broker has two copies more than another, one of them goes there, followers first
    lead     the first of a partition's copies, its preferred leader, is the broker that leads least so far

Racks are not looked at: `moldau brokers rebalance` does, and weighs bytes. For a thread: a topic of ten
thousand partitions takes a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def spread(
    partitions: Mapping[int, Sequence[int]], brokers: Sequence[int], copies: int
) -> dict[int, tuple[int, ...]]:
    """The replicas of each partition afterwards, the preferred leader first; `partitions`: those now."""
    chosen = {
        index: [each for each in replicas if each in brokers][:copies]
        for index, replicas in partitions.items()
    }
    held: dict[int, set[int]] = {
        broker: {index for index, replicas in chosen.items() if broker in replicas} for broker in brokers
    }
    for index, replicas in chosen.items():
        while len(replicas) < copies:
            free = [each for each in brokers if each not in replicas]
            broker = min(free, key=lambda each: (len(held[each]), each))
            replicas.append(broker)
            held[broker].add(index)
    _level(chosen, held)
    return _with_leaders(partitions, chosen)


def _level(chosen: dict[int, list[int]], held: dict[int, set[int]]) -> None:
    while True:
        most = max(held, key=lambda each: (len(held[each]), each))
        least = min(held, key=lambda each: (len(held[each]), each))
        if len(held[most]) - len(held[least]) <= 1:
            return
        able = held[most] - held[least]
        index = min(able, key=lambda each: (chosen[each][0] == most, each))
        chosen[index][chosen[index].index(most)] = least
        held[most].remove(index)
        held[least].add(index)


def _with_leaders(
    partitions: Mapping[int, Sequence[int]], chosen: Mapping[int, list[int]]
) -> dict[int, tuple[int, ...]]:
    leads: Counter[int] = Counter()
    found = {}
    for index, replicas in chosen.items():
        now = partitions[index][0] if partitions[index] else -1
        leader = _leader(replicas, now, leads)
        leads[leader] += 1
        found[index] = (leader, *(each for each in replicas if each != leader))
    return found


def _leader(replicas: list[int], now: int, leads: Counter[int]) -> int:
    return min(replicas, key=lambda each: (leads[each], each != now, replicas.index(each)))
