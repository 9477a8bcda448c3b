"""ConsumerGroupHeartbeat, versions 0-1: a member of a consumer group (KIP-848) joins, stays alive,
acknowledges its assignment, or leaves.

    v1  regular-expression subscriptions; the client chooses its member id
The client must have Read on the group, and Describe on each topic that it names. A pattern matches only
topics that it may describe (coordinator/group/consumer/heartbeat.py). Not here: the protocol itself
(coordinator/group/consumer/service.py).
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import ASKED_AT_ONCE, Parts, apart, group_client, may
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.waiting import Answer, settled
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType

TOPICS_MAX = 10_000
OWNED_MAX = 100_000
"""A heartbeat is handled in one slice of the loop, so its size is bounded."""


@handles(ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Answer[ConsumerGroupHeartbeatResponse]:
    if not serves_consumer_groups(broker):
        code = ErrorCode.UNSUPPORTED_VERSION
        return ConsumerGroupHeartbeatResponse(error_code=code, error_message=code.message)
    if not may(broker, context.session, Operation.READ, ResourceType.GROUP, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return ConsumerGroupHeartbeatResponse(error_code=code, error_message=code.message)
    names = request.subscribed_topic_names
    if names is not None and len(names) > TOPICS_MAX:
        return _refused(f"A member can subscribe to {TOPICS_MAX} topics at most; use a regular expression.")
    owned = request.topic_partitions
    if owned is not None and sum(1 + len(topic.partitions) for topic in owned[: OWNED_MAX + 1]) > OWNED_MAX:
        return _refused(f"A member can own {OWNED_MAX} topics and partitions at most.")
    if not names or broker.authorizer is None:
        return broker.groups.consumer_group_heartbeat(request, group_client(broker, context))
    steps = apart(broker, context.session, Operation.DESCRIBE, ResourceType.TOPIC, names, str)
    if len(names) <= ASKED_AT_ONCE:
        return _permitted(broker, context, request, all_steps(steps))

    async def in_slices() -> ConsumerGroupHeartbeatResponse:
        parts = await broker.slow_lane.slices().run(steps)
        return await settled(_permitted(broker, context, request, parts))

    return in_slices()


def serves_consumer_groups(broker: Broker) -> bool:
    """Whether group.coordinator.rebalance.protocols names the protocol; asked before any right, as in
    Kafka."""
    return "consumer" in broker.controller.static_settings.broker.group_coordinator_rebalance_protocols


def _permitted(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest, parts: Parts[str]
) -> Answer[ConsumerGroupHeartbeatResponse]:
    _, hidden = parts
    if hidden:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ConsumerGroupHeartbeatResponse(error_code=code, error_message=code.message)
    return broker.groups.consumer_group_heartbeat(request, group_client(broker, context))


def _refused(message: str) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
