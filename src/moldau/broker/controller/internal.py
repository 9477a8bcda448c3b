"""Partition counts and settings with which internal topics are created."""

from moldau.broker.controller.topics import NewTopic
from moldau.broker.metadata.image import (
    GROUP_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    Image,
)
from moldau.common.settings.broker import BrokerSettings


def auto_topic(image: Image, name: str, settings: BrokerSettings, *, in_cluster: bool = False) -> NewTopic:
    """The topic to create when one is missing; internal ones have their own settings.

    On a single broker internal topics get at most as many replicas as brokers live: with their default of
    three it could never have groups. In a cluster, as in Kafka, they wait for the full number: made by the
    first broker that starts, they would have one replica for ever.
    """
    replicas_max = 2**15 if in_cluster else max(1, len(image.live_brokers()))
    if name == GROUP_OFFSETS_TOPIC:
        return NewTopic(
            name,
            settings.offsets_topic_num_partitions,
            min(settings.offsets_topic_replication_factor, replicas_max),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        replication_factor = min(settings.transaction_state_log_replication_factor, replicas_max)
        return NewTopic(
            name,
            settings.transaction_state_log_num_partitions,
            replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(min(settings.transaction_state_log_min_isr, replication_factor)),
                "segment.bytes": str(settings.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_STATE_TOPIC:
        replication_factor = min(settings.share_coordinator_state_topic_replication_factor, replicas_max)
        return NewTopic(
            name,
            settings.share_coordinator_state_topic_num_partitions,
            replication_factor,
            configs={
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "compression.type": "producer",
                "min.insync.replicas": str(
                    min(settings.share_coordinator_state_topic_min_isr, replication_factor)
                ),
                "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return NewTopic(name)
