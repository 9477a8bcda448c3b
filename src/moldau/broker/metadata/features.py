"""Kafka's features and their levels in this cluster (KIP-584, KIP-1022).

    metadata.version                   30 (Kafka 4.3): what clients may take the cluster for; fixed
    group.version                      1: KIP-848's consumer protocol; fixed
    transaction.version                2: an epoch for every transaction (KIP-890); fixed
    share.version                      1: share groups (KIP-932); 0: off
    eligible.leader.replicas.version   1: replicas that left a small in-sync set may lead (KIP-966); 0: off

What brokers write to each other is told by Moldau's own level (levels.py), not by metadata.version. A level
that nobody changed is the highest: also clusters older than these levels have kept eligible replicas.
"""

from collections.abc import Mapping

from moldau.broker.metadata.image import Image

METADATA = "metadata.version"
ELIGIBLE = "eligible.leader.replicas.version"
SHARE = "share.version"

SUPPORTED: Mapping[str, tuple[int, int]] = {
    METADATA: (7, 30),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    SHARE: (0, 1),
    ELIGIBLE: (0, 1),
}
"""The lowest and highest level of each, as in Kafka 4.3."""

CHANGEABLE = frozenset({ELIGIBLE, SHARE})
"""Features that can be switched off; the others stay at their highest level."""


def level_of(image: Image, name: str) -> int:
    """The level of a feature of Kafka's."""
    return image.features.get(name, SUPPORTED[name][1])


def keeps_eligible(image: Image) -> bool:
    """Whether the cluster keeps eligible leader replicas."""
    return level_of(image, ELIGIBLE) > 0


def serves_share_groups(image: Image) -> bool:
    """Whether the cluster serves share groups."""
    return level_of(image, SHARE) > 0
