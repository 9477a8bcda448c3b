"""DescribeProducers, version 0: the active producers of a partition (KIP-664); a partition that is named
twice is answered once. Any replica answers for itself, as an administrator may ask a follower.
"""

from collections.abc import Generator

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
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
) -> Generator[None, None, DescribeProducersResponse]:
    answer = DescribeProducersResponse()
    told: set[tuple[str, int]] = set()
    for topic in request.topics:
        rows = []
        for index in topic.partition_indexes:
            yield
            if (topic.name, index) not in told:
                told.add((topic.name, index))
                row = yield from _answer(broker, topic.name, index)
                rows.append(row)
        answer.topics.append(TopicResponse(name=topic.name, partitions=rows))
    return answer


def _answer(broker: Broker, topic: str, index: int) -> Generator[None, None, PartitionResponse]:
    partition = broker.replicas.partition(topic, index)
    answer = PartitionResponse(partition_index=index)
    if partition is None:
        answer.error_code = broker.replicas.absence(topic, index)
    elif not partition.online:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        for producer_id, state in list(partition.log.producers.states.items()):
            answer.active_producers.append(
                ProducerState(
                    producer_id=producer_id,
                    producer_epoch=state.producer_epoch,
                    last_sequence=state.last_sequence,
                    last_timestamp=state.last_timestamp_ms,
                    coordinator_epoch=state.coordinator_epoch,
                    current_txn_start_offset=state.transaction_first_offset,
                )
            )
            yield
    return answer
