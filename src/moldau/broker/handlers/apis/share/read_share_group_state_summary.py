"""ReadShareGroupStateSummary, versions 0-1: where share-partitions begin (KIP-932), for group coordinators.

Other brokers send it: the client must have ClusterAction on the cluster.
"""

from collections.abc import Awaitable

from moldau.broker.coordinator.share.shard import Outcome
from moldau.broker.handlers.apis.share.share_states import asked_by_key, complaint, may_not
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.messages import read_share_group_state_summary as messages


@handles(messages.ReadShareGroupStateSummaryRequest)
def read_share_group_state_summary(
    broker: Broker, context: RequestContext, request: messages.ReadShareGroupStateSummaryRequest
) -> Awaitable[messages.ReadShareGroupStateSummaryResponse]:
    return _answer(broker, context, request)


async def _answer(
    broker: Broker, context: RequestContext, request: messages.ReadShareGroupStateSummaryRequest
) -> messages.ReadShareGroupStateSummaryResponse:
    coordinator = None if may_not(broker, context) else broker.share_coordinator
    outcomes = await asked_by_key(
        broker,
        coordinator,
        request,
        lambda coordinator, key, row: coordinator.summary(key),
    )
    return messages.ReadShareGroupStateSummaryResponse(
        results=[
            messages.ReadStateSummaryResult(
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
    state = outcome.state
    if state is not None:
        row.state_epoch, row.leader_epoch = state.state_epoch, state.leader_epoch
        row.start_offset, row.delivery_complete_count = state.start_offset, state.ended_count
    return row
