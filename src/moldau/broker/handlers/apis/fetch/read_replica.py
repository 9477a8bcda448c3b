"""Chooses the replica that a consumer should read from: one in its own rack (KIP-392).

    consumer, rack b ── Fetch ──> leader, rack a        no records; preferred read replica: 2
                     ── Fetch ──> broker 2, rack b      records up to its own high watermark

As Kafka's RackAwareReplicaSelector: an in-sync follower in the consumer's rack that has the offset; of
several the one whose log reaches furthest, then the one that was caught up last, then the highest id. If the
leader is in that rack too, it is the leader. A follower that drops out of the in-sync set, or dies, is not
chosen any more; it refuses consumers itself (replication/partition.py), and these return to the leader.
"""

from moldau.broker.handlers.parts.cluster_view import endpoint_of
from moldau.broker.metadata.image import Image
from moldau.broker.replication.partition import Partition


def preferred_replica(
    image: Image, listener: str, partition: Partition, rack: str, offset: int
) -> int | None:
    """The broker, reachable on `listener`, from which a consumer in `rack` should read `offset`; None: from
    this one, the leader.
    """
    brokers = image.brokers
    leader = brokers.get(partition.leader)
    if leader is None or leader.rack == rack:
        return None
    candidates = [
        (follower.end_offset, follower.caught_up_ms, node)
        for node, follower in partition.role.followers.within(partition.role.in_sync)
        if follower.log_start_offset <= offset <= follower.end_offset
        and node in brokers
        and brokers[node].rack == rack
        and endpoint_of(image, node, listener) is not None
    ]
    return max(candidates)[-1] if candidates else None
