"""The brokers, leaders and replicas of a cluster, read once.

Not here: leaders that move meanwhile. A broker that no longer leads says so, and the user asks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.routing import metadata
from moldau.client.admin.topics import Broker, Partition, partition_of
from moldau.client.cluster import Cluster
from moldau.client.errors import UnknownTopic
from moldau.common.protocol.errors import ErrorCode

Place = tuple[str, int]
"""A topic and a partition of it."""


class Layout(NamedTuple):
    """Brokers by id, partitions in order, and the cluster that is asked further."""

    cluster: Cluster
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, Broker]
    partitions: Mapping[Place, Partition]

    @property
    def topics(self) -> list[str]:
        """The names of all topics, in order."""
        return sorted({name for name, _ in self.partitions})

    @property
    def replicas(self) -> dict[Place, tuple[int, ...]]:
        """The ids of each partition's replicas."""
        return {place: each.replicas for place, each in self.partitions.items()}

    def require(self, broker_id: int) -> int:
        """The id of a broker. KafkaProblem if there is none."""
        if broker_id not in self.brokers:
            known = ", ".join(map(str, self.brokers))
            raise KafkaProblem(
                ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {broker_id}: there are {known}"
            )
        return broker_id

    def leader(self, place: Place) -> int:
        """The id of a partition's leader. UnknownTopic; KafkaProblem if there is none."""
        topic, index = place
        found = self.partitions.get(place)
        if found is None:
            if topic not in self.topics:
                raise UnknownTopic(f"there is no topic {topic!r}", topic)
            raise UnknownTopic(f"{topic} has no partition {index}: see `moldau topics describe {topic}`")
        if found.leader not in self.brokers:
            raise KafkaProblem(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader: see `moldau status`"
            )
        return found.leader


def layout(cluster: Cluster) -> Layout:
    """Read the metadata of all topics."""
    known = metadata(cluster)
    brokers = sorted(Broker(each.node_id, each.host, each.port, each.rack) for each in known.brokers)
    partitions = {
        (topic.name, each.partition_index): partition_of(each)
        for topic in known.topics
        if not topic.error_code
        for each in topic.partitions
    }
    return Layout(
        cluster,
        known.cluster_id or "",
        known.controller_id,
        {each.broker_id: each for each in brokers},
        dict(sorted(partitions.items())),
    )
