"""DeleteRecords, versions 0-2: forget everything before an offset (KIP-107).

    v2  flexible

The log start offset moves at once, never back, and never past the high watermark; the segments that lie
wholly before it go with the next round of retention. Offset -1 means the high watermark. Kafka refuses it for
topics that are only compacted.
"""

from collections.abc import Generator

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.list_offsets import refusal
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK = -1


@handles(DeleteRecordsRequest)
def delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> Generator[None, None, DeleteRecordsResponse]:
    answer = DeleteRecordsResponse()
    for topic in request.topics:
        rows = []
        # Of a partition that is named twice, the last row counts, as in Kafka.
        last = {asked.partition_index: asked for asked in topic.partitions}
        yield
        for asked in last.values():
            rows.append(_delete(broker, topic.name, asked))
            yield
        answer.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    return answer


def _delete(broker: Broker, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    partition = broker.replicas.partition(topic, asked.partition_index)
    answer = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=refusal(broker, partition, -1)
    )
    if partition is None or answer.error_code:
        return answer
    policy = partition.log.settings.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        answer.error_code = ErrorCode.POLICY_VIOLATION
        return answer
    offset = partition.high_watermark if asked.offset == _HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= partition.high_watermark:
        answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return answer
    partition.log.increment_log_start_offset(offset)
    partition.changed()
    answer.low_watermark = partition.log.log_start_offset
    return answer
