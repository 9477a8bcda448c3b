"""Where the replicas of a broker may go when it is emptied. Pure: replica lists in, replica lists out.

Each partition keeps its other replicas, so that only the leaving broker's bytes are copied. The newcomer
comes from a rack that the partition has not yet, where there is one, and has the fewest replicas. Where the
leaver was the preferred leader (the first of the list), the one that is preferred least often takes over.
What was chosen counts for the next choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from moldau.tools.shared.errors import CommandError

Place = TypeVar("Place", bound=tuple[str, int])


def without(
    leaving: int, replicas: Mapping[Place, Sequence[int]], racks: Mapping[int, str | None]
) -> dict[Place, list[int]]:
    """Return new replicas for each partition that `leaving` holds.

    `racks` has every broker that may take replicas, with its rack. Raises CommandError if a partition has
    replicas on all of them already.
    """
    takers = [broker for broker in sorted(racks) if broker != leaving]
    counts: Counter[int] = Counter(broker for each in replicas.values() for broker in each)
    leaders: Counter[int] = Counter(each[0] for each in replicas.values() if each)
    found: dict[Place, list[int]] = {}
    for place in sorted(replicas):
        present = list(replicas[place])
        if leaving not in present:
            continue
        staying = [broker for broker in present if broker != leaving]
        free = [broker for broker in takers if broker not in staying]
        if not free:
            raise CommandError(
                f"{place[0]}-{place[1]} has {len(present)} replicas and, without broker {leaving}, only "
                f"{len(takers)} brokers to lie on: start another broker, or lower its replication factor "
                "with `moldau topics reassign`"
            )
        taken_racks = {racks.get(broker) for broker in staying} - {None}
        newcomer = min(free, key=lambda broker: (racks[broker] in taken_racks, counts[broker], broker))
        counts[newcomer] += 1
        target = [newcomer if broker == leaving else broker for broker in present]
        if present[0] == leaving:
            first = min(target, key=lambda broker: (leaders[broker], target.index(broker)))
            leaders[first] += 1
            target = [first, *(broker for broker in target if broker != first)]
        found[place] = target
    return found
