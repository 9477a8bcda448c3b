"""DescribeProducers, version 0: the producers that a partition remembers (KIP-664)."""

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.list_offsets import refusal
from moldau.handlers.registry import handles
from moldau.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@handles(DescribeProducersRequest)
def describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_answer(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _answer(broker: Broker, topic: str, index: int) -> PartitionResponse:
    partition = broker.replicas.partition(topic, index)
    answer = PartitionResponse(partition_index=index, error_code=refusal(broker, partition, -1))
    if partition is not None and not answer.error_code:
        answer.active_producers = [
            ProducerState(
                producer_id=producer_id,
                producer_epoch=state.producer_epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp_ms,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.transaction_first_offset,
            )
            for producer_id, state in partition.log.producers.states.items()
        ]
    return answer
