"""Descriptions of topics, from Metadata, DescribeConfigs and DescribeTopicPartitions, in the shape that
`moldau topics` prints (commands/topics/description.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moldau.client.admin.configs import TOPIC, describe_configs
from moldau.client.admin.routing import ask_any, metadata
from moldau.common.core.ids import uuid_to_text
from moldau.tools.commands.topics.description import PartitionDescription, TopicDescription
from moldau.tools.commands.topics.eligible import load_eligible

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

TOPICS_AT_ONCE = 500


def load(cluster: Cluster, names: Sequence[str]) -> list[TopicDescription]:
    """Describe topics, in the order of `names`; one that was deleted meanwhile is left out."""
    found: list[TopicDescription] = []
    for start in range(0, len(names), TOPICS_AT_ONCE):
        some = names[start : start + TOPICS_AT_ONCE]
        topics = {each.name: each for each in metadata(cluster, some).topics if not each.error_code}
        settings = describe_configs(cluster, TOPIC, list(topics), synonyms=False)
        for name in some:
            if name in topics:
                values = {each.name: (each.value, each.source) for each in settings.get(name, [])}
                found.append(_describe(topics[name], values))
    _add_eligible(cluster, found)
    return found


def _describe(topic: Any, settings: Mapping[str, tuple[str | None, int]]) -> TopicDescription:
    partitions = [
        PartitionDescription(
            index=each.partition_index,
            leader=each.leader_id if each.leader_id >= 0 else None,
            replicas=list(each.replica_nodes),
            isr=list(each.isr_nodes),
        )
        for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
    ]
    return TopicDescription(topic.name, uuid_to_text(topic.topic_id), partitions, dict(settings))


def _add_eligible(cluster: Cluster, topics: Sequence[TopicDescription]) -> None:
    """Ask for eligible leader replicas where a replica is out of sync; elsewhere there are none."""
    lacking = [topic for topic in topics if any(len(at.isr) < len(at.replicas) for at in topic.partitions)]
    if not lacking:
        return
    eligible = load_eligible(
        [("", 0)], [topic.name for topic in lacking], 0, lambda _, request, *__: ask_any(cluster, request)
    )
    for topic in lacking:
        for each in topic.partitions:
            if (lists := eligible.get((topic.name, each.index))) is not None:
                each.eligible, each.last_known_eligible = lists
