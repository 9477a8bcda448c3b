"""Partition counts and settings with which internal topics are created."""

from moldau.controller.topics import NewTopic
from moldau.core.settings.broker import BrokerSettings
from moldau.metadata.image import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Image


def auto_topic(image: Image, name: str, settings: BrokerSettings) -> NewTopic:
    """The topic to create when one is missing; internal ones have their own settings.

    Internal topics get at most as many replicas as brokers live, since with their default of three a single
    broker could never have groups.
    """
    live = max(1, len(image.live_brokers()))
    if name == GROUP_OFFSETS_TOPIC:
        return NewTopic(
            name,
            settings.offsets_topic_num_partitions,
            min(settings.offsets_topic_replication_factor, live),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        replication_factor = min(settings.transaction_state_log_replication_factor, live)
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
    return NewTopic(name)
