"""Replica placement: leaders round robin over the brokers, followers on other racks, all brokers with as many
replicas as that allows.

The brokers are laid out in a ring that alternates between the racks. Partition p is led from position start
+ p. Its followers are chosen one by one: from racks that it has none on, as long as there are such; of these
whoever has the fewest replicas (leaderships to come are counted at the start), then whoever has followed this
leader least often, then the next along the ring. Each time around the ring that order shifts by one, so
that the same brokers do not always share partitions. Without racks no two brokers differ by more than one
replica.

    brokers 0 1 2, two replicas, start 0:     p0 [0 1]   p1 [1 2]   p2 [2 0]   p3 [0 2]   p4 [1 0]   p5 [2 1]

Brokers that are fenced or shut down are used only when there are not enough others, and never come first: as
in Kafka, a topic can be created while a broker restarts.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence

from moldau.broker.controller.decision import Refusal
from moldau.broker.metadata.image import BrokerState
from moldau.common.protocol.errors import ErrorCode

Placing = Generator[None, None, list[tuple[int, ...]]]
_AT_ONCE = 16


def place(
    brokers: Sequence[BrokerState], *, start: int, first_partition: int, count: int, replication_factor: int
) -> Placing:
    """Replicas for `count` partitions from `first_partition` on; `start` is any number (random, to spread
    topics)."""
    live = [broker for broker in brokers if broker.active]
    if replication_factor > len(brokers):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication "
            "factor of "
            f"{replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered.",
        )
    if not live:
        raise Refusal(ErrorCode.BROKER_NOT_AVAILABLE, "All brokers are fenced or shutting down.")
    ring = _alternating(live)
    spare = [broker.node_id for broker in brokers if not broker.active]
    racks = {broker.node_id: broker.rack for broker in live}
    first = start + first_partition
    counts = {
        node: count // len(ring) + ((place - first) % len(ring) < count % len(ring))
        for place, node in enumerate(ring)
    }
    pairs: Counter[tuple[int, int]] = Counter()
    placed = []
    for position in range(first, first + count):
        replicas = _follow(ring, racks, counts, pairs, position, replication_factor)
        placed.append((*replicas, *spare[: replication_factor - len(replicas)]))
        if not len(placed) % _AT_ONCE:
            yield
    if replication_factor > 1:
        yield from _even_out(placed, racks, counts)
    return placed


def _even_out(
    placed: list[tuple[int, ...]], racks: Mapping[int, str | None], counts: dict[int, int]
) -> Generator[None, None, None]:
    """Let followers change places where the last partitions could not make up for the others: their leaders
    may have been the very brokers that lacked replicas."""
    for index in reversed(range(len(placed))):
        if max(counts.values()) - min(counts.values()) < 2:
            return
        replicas = list(placed[index])
        for place, old in enumerate(replicas[1:], 1):
            others = [racks.get(node) for node in replicas if node != old]
            allowed = [
                node
                for node in counts
                if node not in replicas and (racks[node] == racks.get(old) or racks[node] not in others)
            ]
            new = min(allowed, key=counts.__getitem__, default=old)
            if old in counts and counts[old] - counts[new] > 1:
                counts[old] -= 1
                counts[new] += 1
                replicas[place] = new
        placed[index] = tuple(replicas)
        if not index % _AT_ONCE:
            yield


def _alternating(brokers: Sequence[BrokerState]) -> list[int]:
    """Node ids such that neighbours stand on different racks as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(broker.rack or "", []).append(broker.node_id)
    rows = [by_rack[rack] for rack in sorted(by_rack)]
    return [row[level] for level in range(max(map(len, rows))) for row in rows if level < len(row)]


def _follow(
    ring: Sequence[int],
    racks: Mapping[int, str | None],
    counts: dict[int, int],
    pairs: Counter[tuple[int, int]],
    position: int,
    wanted: int,
) -> list[int]:
    """The replicas of one partition. `counts`: how many replicas each broker has, leaderships to come with
    them; `pairs`: how often one has followed another. Both are brought up to date."""
    size = len(ring)
    leader = ring[position % size]
    replicas, used = [leader], {racks[leader]}
    if wanted == 1 or size == 1:
        return replicas
    shift = position // size % (size - 1)
    others = [ring[(position + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
    while others and len(replicas) < wanted:
        elsewhere = [node for node in others if racks[node] not in used]
        choice = elsewhere or others
        node = min(choice, key=lambda each: (counts[each], pairs[leader, each]))  # the first of equal ones
        replicas.append(node)
        used.add(racks[node])
        counts[node] += 1
        pairs[leader, node] += 1
        others.remove(node)
    return replicas
