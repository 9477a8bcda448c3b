"""Creates topics in the metadata for logs found without it: a data folder that Kafka wrote.

Kafka keeps its metadata in a log of its own (`__cluster_metadata`), which Moldau does not read. The partition
folders hold what is needed to serve them: names, topic ids and partition counts. Topic settings are not in
them and have to be set again. Leader epochs and producer ids go on where they were, as far as the logs tell
(replication/adoption.py). This is done once, when the metadata is new; later, a folder without a topic is
left over from a deletion.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from moldau.broker.controller.decision import Decision
from moldau.broker.controller.names import METADATA_TOPIC, name_complaint
from moldau.broker.metadata.changes import Change, ProducerIdsAllocated, TopicCreated
from moldau.broker.metadata.image import Image, PartitionState


class FoundTopic(NamedTuple):
    """A topic as its folders show it. `partition_count`: one more than the highest partition found;
    `leader_epochs`: with which each partition goes on, where that is not 0."""

    name: str
    topic_id: bytes
    partition_count: int
    leader_epochs: Mapping[int, int] = MappingProxyType({})


def adopt_topics(
    image: Image, found: Sequence[FoundTopic], node_id: int, next_producer_id: int
) -> Decision[list[str]]:
    """Decide on topics to adopt, each with its only replica on `node_id`; answers with their names.
    Producer ids below `next_producer_id` are never allocated."""
    changes: list[Change] = []
    if next_producer_id > image.next_producer_id:
        changes.append(ProducerIdsAllocated(node_id, next_producer_id))
    for topic in found:
        known = topic.name in image.topics or topic.topic_id in image.topic_names
        if not known and topic.name != METADATA_TOPIC and name_complaint(topic.name) is None:
            fresh = PartitionState.fresh((node_id,))
            epochs = topic.leader_epochs
            partitions = tuple(
                fresh._replace(leader_epoch=epochs.get(index, 0)) for index in range(topic.partition_count)
            )
            changes.append(TopicCreated(topic.name, topic.topic_id, partitions))
    return Decision(changes, [change.name for change in changes if isinstance(change, TopicCreated)])
