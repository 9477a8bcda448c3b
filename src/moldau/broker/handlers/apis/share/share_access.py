"""What the APIs of share groups have in common: whether they are served, and which share-partition is meant.
No API is registered here."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.coordinator.share.state import Key
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.rights import may
from moldau.broker.metadata.features import serves_share_groups
from moldau.broker.metadata.image import NO_LEADER
from moldau.broker.replication.partition import Partition
from moldau.broker.share.sessions import MemberKey
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import Operation, ResourceType

if TYPE_CHECKING:
    from moldau.broker.share.served import ServedPartition

MEMBER_ID_MAX = 255


def is_served(broker: Broker) -> bool:
    """Whether the cluster serves share groups (the feature share.version), or this broker is told to."""
    protocols = broker.controller.static_settings.broker.group_coordinator_rebalance_protocols
    return serves_share_groups(broker.metadata.image) or "share" in protocols


class Refused(NamedTuple):
    """Why a request is refused as a whole."""

    error_code: int
    message: str


def refusal(
    broker: Broker, context: RequestContext, group_id: str | None, member_id: str | None
) -> Refused | None:
    """Why ShareFetch or ShareAcknowledge is refused, whatever it asks for."""
    if not is_served(broker):
        code = ErrorCode.UNSUPPORTED_VERSION
        return Refused(code, code.message)
    if not group_id:
        return Refused(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not may(broker, context.session, Operation.READ, ResourceType.GROUP, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return Refused(code, code.message)
    if not member_id or len(member_id) > MEMBER_ID_MAX:
        return Refused(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return None


class Places:
    """The share-partitions of one request's group."""

    def __init__(self, broker: Broker, context: RequestContext, member: MemberKey) -> None:
        self._broker = broker
        self._session = context.session
        self._group_id = member.group_id
        self.leaders: dict[int, None] = {}
        """Those that rows name because they lead and this broker does not."""

    def partition(self, topic_id: bytes, index: int) -> Partition | int:
        """The partition that is led here, or an error code."""
        broker = self._broker
        name = broker.metadata.image.topic_names.get(topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not may(broker, self._session, Operation.READ, ResourceType.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        held = broker.replicas.by_topic_id.get(topic_id)
        partition = None if held is None else held.get(index)
        if partition is None:
            return broker.replicas.absence(topic_id, index, by_id=True)
        return partition if partition.leads else partition.refusal()

    def served(self, topic_id: bytes, index: int) -> "ServedPartition | int":
        """The share-partition, made if need be; or an error code."""
        partition = self.partition(topic_id, index)
        if isinstance(partition, int):
            return partition
        return self._broker.share.get(Key(self._group_id, topic_id, index), partition)

    def leader(self, topic_id: bytes, index: int) -> tuple[int, int]:
        """The leader of a partition that is not led here, with its epoch (-1: none)."""
        image = self._broker.metadata.image
        topic = image.topic_by_id(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return NO_LEADER, -1
        state = topic.partitions[index]
        if state.leader != NO_LEADER:
            self.leaders[state.leader] = None
        return state.leader, state.leader_epoch

    def endpoints(self, listener: str) -> Iterable[tuple[int, str, int, str | None]]:
        """Where these leaders are reached: id, host, port, rack."""
        image = self._broker.metadata.image
        for node_id in sorted(self.leaders):
            broker = image.brokers.get(node_id)
            endpoint = None if broker is None or broker.fenced else broker.endpoints.get(listener)
            if broker is not None and endpoint is not None:
                yield node_id, *endpoint, broker.rack


MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors with which a row names the leader."""
