"""Finds the broker that leads a partition: the coordinator, for partitions of internal topics.

Used by FindCoordinator, and for requests between brokers (markers, AddPartitionsToTxn).
"""

from moldau.broker.metadata.image import BrokerState, Image


def leading_broker(image: Image, topic: str, index: int) -> BrokerState | None:
    """The live broker that leads the partition; None if there is none now, or no such partition."""
    state = image.topics.get(topic)
    if state is None or not 0 <= index < len(state.partitions):
        return None
    broker = image.brokers.get(state.partitions[index].leader)
    return None if broker is None or broker.fenced else broker
