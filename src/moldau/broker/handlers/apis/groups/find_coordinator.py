"""FindCoordinator, versions 0-6: which broker coordinates a group or a transactional id.

    v1  key types: 0 group, 1 transaction       v4  several keys at once
    v3  flexible                                v6  key type 2, share groups
The first request creates __consumer_offsets, __transaction_state or __share_group_state. A key's coordinator
is the leader of its partition there. The client must have Describe on the group or the transactional id; the
coordinators of share-partitions (keys `group:topicId:partition`) are for brokers, which have ClusterAction.
"""

from collections.abc import Callable, Generator, Sequence

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import Reply, handles
from moldau.broker.handlers.parts.rights import apart, may
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.broker.metadata.leaders import leading_broker
from moldau.common.core.ids import uuid_from_text
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.common.protocol.operations import CLUSTER_NAME, Operation, ResourceType

Steps = Generator[None, None, FindCoordinatorResponse]
SEVERAL_KEYS_SINCE = 4
NO_ERROR = "NONE"
"""Kafka's message in versions 1-3 when there is no error; some clients need it."""
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
TOPICS = {
    GROUP_KEY: GROUP_OFFSETS_TOPIC,
    TRANSACTION_KEY: TRANSACTION_STATE_TOPIC,
    SHARE_KEY: SHARE_STATE_TOPIC,
}
SHARE_KEYS_SINCE = 6
RESOURCES = {
    GROUP_OFFSETS_TOPIC: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION_STATE_TOPIC: (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    SHARE_STATE_TOPIC: (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
}
"""What a key is, and the error of who may not describe it; by the topic that holds it."""


@handles(FindCoordinatorRequest)
def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> Reply[FindCoordinatorResponse]:
    keys = request.coordinator_keys if context.api_version >= SEVERAL_KEYS_SINCE else [request.key]
    topic = TOPICS.get(request.key_type)
    if topic is None or (topic == SHARE_STATE_TOPIC and context.api_version < SHARE_KEYS_SINCE):
        message = "There is no such coordinator type."
        refused = [_refused(key, ErrorCode.INVALID_REQUEST, message) for key in keys]
        return _response(context, refused)
    if topic == SHARE_STATE_TOPIC:
        wrong = [key for key in keys if not _is_share_key(key)]
        if wrong:
            message = "The key of a share-partition is group:topicId:partition."
            return _response(context, [_refused(key, ErrorCode.INVALID_REQUEST, message) for key in keys])
    if topic in broker.metadata.image.topics:
        return _find_all(broker, context, topic, keys)
    return _create_and_find(broker, context, topic, keys)


def _is_share_key(key: str) -> bool:
    """Whether it is `group:topicId:partition`."""
    group_id, _, rest = key.rpartition(":")[0].rpartition(":")
    partition = key.rpartition(":")[2]
    try:
        uuid_from_text(rest)
    except ValueError:
        return False
    return bool(group_id) and partition.isascii() and partition.isdecimal()


async def ensure_topic(broker: Broker, topic: str) -> str | None:
    """Create an internal topic that is not there yet; a message says why that failed, None: it exists."""
    (result,) = await broker.controller.auto_create_topics([topic])
    if topic in broker.metadata.image.topics:
        return None
    return f"{topic} could not be created: {result.outcome.message}"


async def _create_and_find(
    broker: Broker, context: RequestContext, topic: str, keys: Sequence[str]
) -> FindCoordinatorResponse:
    resource_type, _ = RESOURCES[topic]
    slices = broker.slow_lane.slices()
    operation, name = _right(topic)
    steps = apart(broker, context.session, operation, resource_type, keys, name, quiet=True)
    permitted, _ = await slices.run(steps)
    message = await ensure_topic(broker, topic) if permitted else None
    if message is None:
        return await slices.run(_find_all(broker, context, topic, keys))
    found = []
    for key in keys:
        found.append(_forbidden(broker, context, topic, key) or _unavailable(key, message))
    return _response(context, found)


def _find_all(broker: Broker, context: RequestContext, topic: str, keys: Sequence[str]) -> Steps:
    found = []
    for key in keys:
        found.append(_find(broker, context, topic, key))
        yield
    return _response(context, found)


def _forbidden(broker: Broker, context: RequestContext, topic: str, key: str) -> Coordinator | None:
    """The row for a client without Describe on the key."""
    resource_type, error_code = RESOURCES[topic]
    operation, name = _right(topic)
    if may(broker, context.session, operation, resource_type, name(key)):
        return None
    return _refused(key, error_code, error_code.message)


def _right(topic: str) -> tuple[Operation, Callable[[str], str]]:
    """What a client must be allowed to do, and to what, to find a coordinator; that of share-partitions is
    for brokers."""
    if topic == SHARE_STATE_TOPIC:
        return Operation.CLUSTER_ACTION, lambda _: CLUSTER_NAME
    return Operation.DESCRIBE, str


def _find(broker: Broker, context: RequestContext, topic: str, key: str) -> Coordinator:
    forbidden = _forbidden(broker, context, topic, key)
    if forbidden is not None:
        return forbidden
    image = broker.metadata.image
    leader = leading_broker(image, topic, _partition_for(broker, topic, key))
    if leader is None:
        return _unavailable(key, f"The key's partition of {topic} has no leader now.")
    address = leader.endpoints.get(context.session.listener)
    if address is None:
        return _unavailable(key, f"The coordinator has no listener {context.session.listener}.")
    host, port = address
    return Coordinator(key=key, node_id=leader.node_id, host=host, port=port)


def _partition_for(broker: Broker, topic: str, key: str) -> int:
    if topic == GROUP_OFFSETS_TOPIC:
        return broker.groups.partition_for(key)
    if topic == SHARE_STATE_TOPIC:
        return broker.share_coordinator.partition_for(key)
    return broker.transactions.partition_for(key)


def _unavailable(key: str, message: str) -> Coordinator:
    return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, message)


def _refused(key: str, error_code: int, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=error_code, error_message=message)


def _response(context: RequestContext, coordinators: list[Coordinator]) -> FindCoordinatorResponse:
    if context.api_version >= SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(coordinators=coordinators)
    (only,) = coordinators
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message if only.error_code else NO_ERROR,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
