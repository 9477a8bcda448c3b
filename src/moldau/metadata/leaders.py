"""Which broker leads a partition, and so coordinates what is kept in it: the one place where that is asked.

Clients are told by it where a coordinator is, and whoever sends a request to a partition's leader (markers,
questions to a transaction's coordinator) finds that broker by it.
"""

from moldau.metadata.image import BrokerState, Image


def leading_broker(image: Image, topic: str, index: int) -> BrokerState | None:
    """The live broker that leads the partition; None if there is none now, or no such partition."""
    state = image.topics.get(topic)
    if state is None or not 0 <= index < len(state.partitions):
        return None
    broker = image.brokers.get(state.partitions[index].leader)
    return None if broker is None or broker.fenced else broker
