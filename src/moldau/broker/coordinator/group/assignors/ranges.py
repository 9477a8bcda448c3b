"""The `range` assignor: equal shares of every topic, and co-partitioned topics stay together.

The need is a join: orders-3 and payments-3 hold the same keys, so one member must own both. The idea: topics
with the same readers and the same number of partitions form one class, the partition *numbers* of a class are
handed out once, and every topic of the class follows. A fresh class is cut into consecutive ranges in member
order; later, every member keeps the lowest numbers it had, up to its new share, and only the rest moves.

Invariant: within a class, shares differ by at most one, and a member has the same partition numbers of every
topic. The price, which is `range`'s nature: the larger shares of every class fall to the same members, so a
group that reads many topics of few partitions is less even than with `uniform`.
"""

from collections import Counter

from moldau.broker.coordinator.group.assignors.spec import (
    Assignment,
    GroupSpec,
    ordered_members,
    subscribers_by_topic,
)


def assign_ranges(spec: GroupSpec) -> dict[str, Assignment]:
    """Assign all partitions of all subscribed topics; every member is in the result."""
    member_order = ordered_members(spec)
    classes: dict[tuple[tuple[int, ...], int], list[bytes]] = {}
    for topic_id, ranks in subscribers_by_topic(spec, member_order).items():
        classes.setdefault((ranks, spec.partition_counts[topic_id]), []).append(topic_id)
    shares: list[dict[bytes, frozenset[int]]] = [{} for _ in member_order]
    for (ranks, partition_count), topic_ids in classes.items():
        owners = _previous_owners(spec, member_order, ranks, topic_ids, partition_count)
        for rank, indices in _divide(ranks, owners, partition_count).items():
            if indices:
                share = frozenset(indices)
                for topic_id in topic_ids:
                    shares[rank][topic_id] = share
    return dict(zip(member_order, shares, strict=True))


def _previous_owners(
    spec: GroupSpec,
    member_order: list[str],
    ranks: tuple[int, ...],
    topic_ids: list[bytes],
    partition_count: int,
) -> list[int]:
    """The previous owner of each partition number (-1: none). Where the topics of the class disagree, most
    topics win, then the lowest rank: that moves the fewest partitions and is the same on every coordinator.
    """
    votes: list[Counter[int] | None] = [None] * partition_count
    for rank in ranks:
        previous = spec.members[member_order[rank]].previous
        for topic_id in topic_ids:
            for index in previous.get(topic_id, ()):
                if index < partition_count:
                    counter = votes[index]
                    if counter is None:
                        counter = votes[index] = Counter()
                    counter[rank] += 1
    return [
        -1 if counter is None else max(counter, key=lambda rank, counter=counter: (counter[rank], -rank))  # type: ignore[misc]
        for counter in votes
    ]


def _divide(ranks: tuple[int, ...], owners: list[int], partition_count: int) -> dict[int, list[int]]:
    """Share the numbers 0..partition_count-1 among `ranks`, evenly, keeping as much with `owners` as evenness
    allows."""
    kept: dict[int, list[int]] = {rank: [] for rank in ranks}
    for index, rank in enumerate(owners):
        if rank >= 0:
            kept[rank].append(index)
    quota, extra = divmod(partition_count, len(ranks))
    # Members that already have more than the quota get a larger share first, so that nothing of theirs moves.
    larger = [rank for rank in ranks if len(kept[rank]) > quota][:extra]
    holders = set(larger)
    larger += [rank for rank in ranks if rank not in holders][: extra - len(larger)]
    sizes = dict.fromkeys(ranks, quota)
    for rank in larger:
        sizes[rank] += 1
    taken = bytearray(partition_count)
    for rank, indices in kept.items():
        del indices[sizes[rank] :]
        for index in indices:
            taken[index] = 1
    free = iter([index for index in range(partition_count) if not taken[index]])
    for rank in ranks:
        indices = kept[rank]
        while len(indices) < sizes[rank]:
            indices.append(next(free))
    return kept
