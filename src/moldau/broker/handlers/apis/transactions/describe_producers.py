"""DescribeProducers, version 0: the active producers of a partition (KIP-664); a partition that is named
twice is answered once. Any replica answers for itself, as an administrator may ask a follower. The client
must have Read on each topic.
"""

from collections.abc import Generator

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(DescribeProducersRequest)
def describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> Generator[None, None, DescribeProducersResponse]:
    answer = DescribeProducersResponse()
    told: set[tuple[str, int]] = set()
    for topic in request.topics:
        rows = []
        permitted = may(broker, context.session, Operation.READ, ResourceType.TOPIC, topic.name)
        yield
        for index in topic.partition_indexes:
            yield
            if (topic.name, index) in told:
                continue
            told.add((topic.name, index))
            if permitted:
                row = yield from _answer(broker, topic.name, index)
            else:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                row = PartitionResponse(partition_index=index, error_code=code, error_message=code.message)
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
