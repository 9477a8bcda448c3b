"""OffsetForLeaderEpoch, versions 2-4: where a leader epoch ended (KIP-101, KIP-320).

    v3  replica id    v4  flexible

A consumer that knows the epoch of the last record it read learns here whether the log was truncated behind
it. The current epoch ends at the log end, not at the high watermark, or a follower would truncate records
that are about to be committed (KIP-101).
"""

from collections.abc import Generator

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.list_offsets import refusal
from moldau.handlers.registry import handles
from moldau.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handles(OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    answer = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        rows = []
        for asked in topic.partitions:
            rows.append(_answer(broker, topic.topic, asked))
            yield
        answer.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
        yield
    return answer


def _answer(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.replicas.partition(topic, asked.partition)
    answer = EpochEndOffset(partition=asked.partition)
    answer.error_code = refusal(broker, topic, asked.partition, asked.current_leader_epoch)
    if partition is not None and not answer.error_code:
        answer.leader_epoch, answer.end_offset = partition.epoch_end(asked.leader_epoch)
    return answer
