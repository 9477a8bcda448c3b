"""ReadShareGroupState, version 0: the state of share-partitions (KIP-932), for leaders of partitions.

Other brokers send it: the client must have ClusterAction on the cluster.
"""

from collections.abc import Awaitable

from moldau.broker.coordinator.share.shard import Outcome
from moldau.broker.handlers.apis.share.share_states import asked_by_key, complaint, may_not
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.messages import read_share_group_state as messages


@handles(messages.ReadShareGroupStateRequest)
def read_share_group_state(
    broker: Broker, context: RequestContext, request: messages.ReadShareGroupStateRequest
) -> Awaitable[messages.ReadShareGroupStateResponse]:
    return _answer(broker, context, request)


async def _answer(
    broker: Broker, context: RequestContext, request: messages.ReadShareGroupStateRequest
) -> messages.ReadShareGroupStateResponse:
    coordinator = None if may_not(broker, context) else broker.share_coordinator
    outcomes = await asked_by_key(
        broker,
        coordinator,
        request,
        lambda coordinator, key, row: coordinator.read(key, row.leader_epoch),
    )
    return messages.ReadShareGroupStateResponse(
        results=[
            messages.ReadStateResult(
                topic_id=topic.topic_id,
                partitions=[_told(row.partition, next(outcomes)) for row in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _told(index: int, outcome: Outcome) -> messages.PartitionResult:
    row = messages.PartitionResult(
        partition=index, error_code=outcome.error_code, error_message=complaint(outcome), start_offset=-1
    )
    if outcome.state is not None:
        row.state_epoch, row.start_offset = outcome.state.state_epoch, outcome.state.start_offset
        row.state_batches = [
            messages.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=deliveries
            )
            for first, last, state, deliveries in outcome.state.batches
        ]
    return row
