"""Parts that several responses share: brokers' endpoints, partition leaders.

A client is told the endpoints of the listener that it connected to; brokers without that listener are left
out. No API is registered here.
"""

from moldau.broker.metadata.image import NO_LEADER, BrokerState, Image, PartitionState
from moldau.common.protocol.errors import ErrorCode

UNKNOWN_OPERATIONS = -(2**31)
"""The client did not ask for authorized operations."""


def reachable_brokers(
    image: Image, listener: str, *, fenced: bool = False
) -> list[tuple[BrokerState, str, int]]:
    """The brokers that a client of this listener can reach, with host and port."""
    found = []
    for node_id in sorted(image.brokers):
        broker = image.brokers[node_id]
        endpoint = broker.endpoints.get(listener)
        if endpoint is not None and (fenced or not broker.fenced):
            found.append((broker, *endpoint))
    return found


def endpoint_of(image: Image, node_id: int, listener: str) -> tuple[str, int] | None:
    """Host and port of a live broker on this listener; None: it cannot be reached there."""
    broker = image.brokers.get(node_id)
    return None if broker is None or broker.fenced else broker.endpoints.get(listener)


class ClusterView:
    """What clients of one listener are told of an image."""

    def __init__(self, image: Image, listener: str) -> None:
        self.brokers = reachable_brokers(image, listener)
        self._image = image
        self._reachable = frozenset(broker.node_id for broker, _, _ in self.brokers)
        self._damaged = [broker for broker, _, _ in self.brokers if broker.offline]

    def controller_id(self, node_id: int) -> int:
        """The controller, if it can be reached, else `node_id`, the broker that answers, if that can: clients
        send administrators' requests there, and any broker decides them.
        """
        controller_id = self._image.controller_id
        return (
            node_id if controller_id not in self._reachable and node_id in self._reachable else controller_id
        )

    def leader_of(self, state: PartitionState) -> tuple[ErrorCode, int]:
        """The leader to tell a client, and the error that goes with it."""
        if state.leader in self._reachable:
            return ErrorCode.NONE, state.leader
        broker = self._image.brokers.get(state.leader)
        if broker is None or broker.fenced:  # it is gone, and the next one is not elected yet
            return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
        return ErrorCode.LISTENER_NOT_FOUND, NO_LEADER

    def without_dead(self, state: PartitionState) -> PartitionState:
        """The partition with the replicas only that can be reached; itself if they all can."""
        if self._reachable.issuperset(state.replicas) and self._reachable.issuperset(state.isr):
            return state
        return state._replace(
            replicas=tuple(node for node in state.replicas if node in self._reachable),
            isr=tuple(node for node in state.isr if node in self._reachable),
        )

    def offline_replicas(self, topic_id: bytes, index: int, state: PartitionState) -> list[int]:
        """The replicas on brokers that cannot be reached, and those whose log directory is offline."""
        offline = [node for node in state.replicas if node not in self._reachable]
        for broker in self._damaged:
            if broker.has_offline(topic_id, index) and broker.node_id in state.replicas:
                offline.append(broker.node_id)
        return offline
