"""WriteShareGroupState, versions 0-1: changes in the state of share-partitions (KIP-932), for leaders of
partitions.

Other brokers send it: the client must have ClusterAction on the cluster.
"""

from collections.abc import Awaitable

from moldau.broker.coordinator.share.shard import Outcome, Write
from moldau.broker.coordinator.share.state import StateBatch
from moldau.broker.handlers.apis.share.share_states import asked_by_key, complaint, may_not
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.messages import write_share_group_state as messages


@handles(messages.WriteShareGroupStateRequest)
def write_share_group_state(
    broker: Broker, context: RequestContext, request: messages.WriteShareGroupStateRequest
) -> Awaitable[messages.WriteShareGroupStateResponse]:
    return _answer(broker, context, request)


async def _answer(
    broker: Broker, context: RequestContext, request: messages.WriteShareGroupStateRequest
) -> messages.WriteShareGroupStateResponse:
    coordinator = None if may_not(broker, context) else broker.share_coordinator
    outcomes = await asked_by_key(
        broker,
        coordinator,
        request,
        lambda coordinator, key, row: coordinator.write(key, _change(row)),
    )
    return messages.WriteShareGroupStateResponse(
        results=[
            messages.WriteStateResult(
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


def _change(row: messages.PartitionData) -> Write:
    return Write(
        row.state_epoch,
        row.leader_epoch,
        row.start_offset,
        row.delivery_complete_count,
        tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in row.state_batches
        ),
    )
