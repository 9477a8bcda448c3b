"""InitializeShareGroupState, version 0: begin the state of share-partitions (KIP-932), for group
coordinators.

Other brokers send it: the client must have ClusterAction on the cluster.
"""

from collections.abc import Awaitable

from moldau.broker.coordinator.share.shard import Outcome
from moldau.broker.handlers.apis.share.share_states import asked_by_key, complaint, may_not
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.messages import initialize_share_group_state as messages


@handles(messages.InitializeShareGroupStateRequest)
def initialize_share_group_state(
    broker: Broker, context: RequestContext, request: messages.InitializeShareGroupStateRequest
) -> Awaitable[messages.InitializeShareGroupStateResponse]:
    return _answer(broker, context, request)


async def _answer(
    broker: Broker, context: RequestContext, request: messages.InitializeShareGroupStateRequest
) -> messages.InitializeShareGroupStateResponse:
    coordinator = None if may_not(broker, context) else broker.share_coordinator
    outcomes = await asked_by_key(
        broker,
        coordinator,
        request,
        lambda coordinator, key, row: coordinator.initialize(key, row.state_epoch, row.start_offset),
    )
    return messages.InitializeShareGroupStateResponse(
        results=[
            messages.InitializeStateResult(
                topic_id=topic.topic_id,
                partitions=[_told(row.partition, next(outcomes)) for row in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _told(index: int, outcome: Outcome) -> messages.PartitionResult:
    return messages.PartitionResult(
        partition=index, error_code=outcome.error_code, error_message=complaint(outcome)
    )
