"""Replica placement: round robin over the brokers, so that leaders and replicas spread evenly, on different
racks.

The brokers are laid out in a ring that alternates between the racks. Partition p starts at position start +
p; its other replicas follow along the ring, first from racks that it has none on, then from any. Each time
around the ring the followers shift by one, so that the same brokers do not always share partitions.

    brokers 0 1 2, two replicas, start 0:     p0 [0 1]   p1 [1 2]   p2 [2 0]   p3 [0 2]   p4 [1 0]   p5 [2 1]

Fenced brokers are used only when there are not enough others, and never come first.
"""

from collections.abc import Generator, Sequence

from moldau.controller.decision import Refusal
from moldau.metadata.image import BrokerState
from moldau.protocol.errors import ErrorCode

Placing = Generator[None, None, list[tuple[int, ...]]]
_AT_ONCE = 64


def place(
    brokers: Sequence[BrokerState], *, start: int, first_partition: int, count: int, replication_factor: int
) -> Placing:
    """Replicas for `count` partitions from `first_partition` on; `start` is any number (random, to spread
    topics)."""
    live = [broker for broker in brokers if not broker.fenced]
    if replication_factor > len(brokers):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication "
            "factor of "
            f"{replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered.",
        )
    if not live:
        raise Refusal(ErrorCode.BROKER_NOT_AVAILABLE, "All brokers are currently fenced.")
    ring = _alternating(live)
    spare = [broker.node_id for broker in brokers if broker.fenced]
    racks = {broker.node_id: broker.rack for broker in live}
    placed = []
    for partition in range(first_partition, first_partition + count):
        replicas = _follow(ring, racks, start + partition, replication_factor)
        placed.append((*replicas, *spare[: replication_factor - len(replicas)]))
        if not len(placed) % _AT_ONCE:
            yield
    return placed


def _alternating(brokers: Sequence[BrokerState]) -> list[int]:
    """Node ids such that neighbours stand on different racks as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(broker.rack or "", []).append(broker.node_id)
    rows = [by_rack[rack] for rack in sorted(by_rack)]
    return [row[level] for level in range(max(map(len, rows))) for row in rows if level < len(row)]


def _follow(ring: Sequence[int], racks: dict[int, str | None], position: int, wanted: int) -> list[int]:
    size = len(ring)
    leader = ring[position % size]
    if wanted == 1 or size == 1:
        return [leader]
    shift = position // size % (size - 1)
    others = [ring[(position + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
    replicas, used = [leader], {racks[leader]}
    for node in others:
        if len(replicas) < wanted and racks[node] not in used:
            replicas.append(node)
            used.add(racks[node])
    for node in others:
        if len(replicas) < wanted and node not in replicas:
            replicas.append(node)
    return replicas
