"""What an administrator decides about brokers: one is removed for good, the metadata level is raised.

A broker is removed once it has stopped and no partition has a replica on it any more. If it starts again all
the same, it registers as a new one.

The level (metadata/levels.py) is raised to one that every broker reads: those that run tell it with their
registration, those that are away told it with their last.
"""

from collections.abc import Collection, Mapping

from moldau.broker.controller.decision import DONE, Decision, Outcome, Steps
from moldau.broker.metadata.changes import BrokerRegistered, BrokerUnregistered, Change, FeatureLevelChanged
from moldau.broker.metadata.image import FIRST_LEVELS, Image
from moldau.broker.metadata.levels import CLUSTER_LEVEL
from moldau.broker.metadata.store import Registration
from moldau.common.protocol.errors import ErrorCode

_AT_ONCE = 64


def unregister_broker(image: Image, node_id: int, live: Collection[int]) -> Steps[Outcome]:
    """Decide on removing a broker. `live`: those that are registered in the store."""
    broker = image.brokers.get(node_id)
    if broker is None:
        message = f"Broker {node_id} is not registered."
        return Decision([], Outcome(ErrorCode.BROKER_ID_NOT_REGISTERED, message))
    if node_id in live or not broker.fenced:
        message = f"Broker {node_id} is running; stop it first."
        return Decision([], Outcome(ErrorCode.INVALID_REQUEST, message))
    count, example = 0, ""
    for name, topic in image.topics.items():
        yield
        for index, state in enumerate(topic.partitions):
            if index % _AT_ONCE == _AT_ONCE - 1:
                yield
            if node_id in state.replicas:
                count, example = count + 1, example or f"{name}-{index}"
    if count:
        message = (
            f"Broker {node_id} still has {count} replicas, such as that of {example}; move them to other "
            f"brokers first (moldau brokers drain {node_id})."
        )
        return Decision([], Outcome(ErrorCode.INVALID_REQUEST, message))
    return Decision([BrokerUnregistered(node_id)], DONE)


def raise_level(image: Image, level: int, live: Mapping[int, Registration]) -> Decision[Outcome]:
    """Decide on a higher metadata level. Refusal: INVALID_UPDATE_VERSION."""
    if level == image.level:
        return Decision([], DONE)
    if level < image.level:
        return _refused(f"The metadata level is {image.level}, and cannot be lowered.")
    for node_id in sorted({*image.brokers, *live}):
        low, high = _levels(image, node_id, live)
        if not low <= level <= high:
            return _refused(f"Broker {node_id} only supports versions {low}-{high}")
    changes: list[Change] = [FeatureLevelChanged(level)]
    if image.level < CLUSTER_LEVEL <= level:
        for node_id, told in live.items():  # what could not be written before
            known = image.brokers.get(node_id)
            if known is not None and known.broker_epoch == told.broker_epoch and not known.fenced:
                changes.append(
                    BrokerRegistered(
                        node_id, told.broker_epoch, told.endpoints, told.rack, told.levels, told.directories
                    )
                )
    return Decision(changes, DONE)


def _levels(image: Image, node_id: int, live: Mapping[int, Registration]) -> tuple[int, int]:
    """The levels that a broker reads. Before the cluster's level, nothing was written down: a broker that is
    away is taken to be of this version then."""
    if node_id in live:
        return live[node_id].levels
    told = image.brokers[node_id].levels
    if told == FIRST_LEVELS and image.level < CLUSTER_LEVEL:
        return FIRST_LEVELS[0], CLUSTER_LEVEL
    return told


def _refused(message: str) -> Decision[Outcome]:
    return Decision([], Outcome(ErrorCode.INVALID_UPDATE_VERSION, message))
