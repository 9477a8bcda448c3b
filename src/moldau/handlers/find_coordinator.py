"""FindCoordinator, versions 0-6: which broker coordinates a group.

    v1  key types: 0 group, 1 transaction       v4  several keys at once
    v3  flexible                                v6  key type 2, share groups
The first question creates __consumer_offsets. A group's coordinator is the leader of its partition there.
Not here: transactions and share groups; asking for them is refused with a sentence.
"""

from collections.abc import Awaitable, Sequence

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

SEVERAL_KEYS_SINCE = 4
GROUP_KEY = 0
NO_COORDINATOR_FOR = {1: "transactions", 2: "share groups"}


@handles(FindCoordinatorRequest)
def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    keys = request.coordinator_keys if context.api_version >= SEVERAL_KEYS_SINCE else [request.key]
    if request.key_type != GROUP_KEY:
        what = NO_COORDINATOR_FOR.get(request.key_type)
        message = f"Moldau does not coordinate {what} yet." if what else "There is no such coordinator type."
        refused = [_refused(key, ErrorCode.INVALID_REQUEST, message) for key in keys]
        return _response(context, refused)
    if GROUP_OFFSETS_TOPIC in broker.metadata.image.topics:
        return _response(context, [_find(broker, context, key) for key in keys])
    return _create_and_find(broker, context, keys)


async def _create_and_find(
    broker: Broker, context: RequestContext, keys: Sequence[str]
) -> FindCoordinatorResponse:
    (result,) = await broker.controller.auto_create_topics([GROUP_OFFSETS_TOPIC])
    if GROUP_OFFSETS_TOPIC in broker.metadata.image.topics:
        return _response(context, [_find(broker, context, key) for key in keys])
    message = f"{GROUP_OFFSETS_TOPIC} could not be created: {result.outcome.message}"
    refused = [_refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, message) for key in keys]
    return _response(context, refused)


def _find(broker: Broker, context: RequestContext, group_id: str) -> Coordinator:
    image = broker.metadata.image
    partition = image.topics[GROUP_OFFSETS_TOPIC].partitions[broker.groups.partition_for(group_id)]
    leader = image.brokers.get(partition.leader)
    if leader is None or leader.fenced:
        message = "The group's partition of __consumer_offsets has no leader now."
        return _refused(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    address = leader.endpoints.get(context.listener)
    if address is None:
        message = f"The group's coordinator has no listener {context.listener}."
        return _refused(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    host, port = address
    return Coordinator(key=group_id, node_id=leader.node_id, host=host, port=port)


def _refused(key: str, error_code: int, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=error_code, error_message=message)


def _response(context: RequestContext, coordinators: list[Coordinator]) -> FindCoordinatorResponse:
    if context.api_version >= SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(coordinators=coordinators)
    (only,) = coordinators
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
