"""OffsetForLeaderEpoch, versions 2-4: where a leader epoch ended (KIP-101, KIP-320).

    v3  replica id    v4  flexible

A consumer that knows the epoch of the last record it read learns here whether the log was truncated behind
it. The current epoch ends at the log end, not at the high watermark, or a follower would truncate records
that are about to be committed (KIP-101). Brokers must have ClusterAction, clients Describe on each topic.
"""

from collections.abc import Generator

from moldau.broker.handlers.apis.fetch.list_offsets import refusal
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may, may_on_cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    answer = OffsetForLeaderEpochResponse()
    session = context.session
    is_broker = may_on_cluster(broker, session, Operation.CLUSTER_ACTION, quiet=True)
    for topic in request.topics:
        rows = []
        permitted = is_broker or may(broker, session, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        for asked in topic.partitions:
            rows.append(_answer(broker, topic.topic, asked) if permitted else _refused(asked))
            yield
        answer.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
        yield
    return answer


def _refused(asked: OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(partition=asked.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _answer(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.replicas.partition(topic, asked.partition)
    answer = EpochEndOffset(partition=asked.partition)
    answer.error_code = refusal(broker, topic, asked.partition, asked.current_leader_epoch)
    if partition is not None and not answer.error_code:
        answer.leader_epoch, answer.end_offset = partition.epoch_end(asked.leader_epoch)
    return answer
