"""A broker becomes known: its addresses, and leadership of what has no leader and it can lead."""

from moldau.controller.decision import Decision
from moldau.controller.election import with_leader
from moldau.metadata.changes import BrokerRegistered, Change, ControllerElected, PartitionChanged
from moldau.metadata.image import NO_LEADER, BrokerState, Image


def register_broker(image: Image, broker: BrokerState, controller_epoch: int | None) -> Decision[None]:
    """Decide on a registration. `controller_epoch`: given when the broker has become the controller as
    well."""
    changes: list[Change] = [
        BrokerRegistered(broker.node_id, broker.broker_epoch, broker.endpoints, broker.rack)
    ]
    if controller_epoch is not None:
        changes.append(ControllerElected(broker.node_id, controller_epoch))
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            if state.leader == NO_LEADER and broker.node_id in state.isr:
                changes.append(PartitionChanged(topic.name, index, with_leader(state, broker.node_id)))
    return Decision(changes, None)
