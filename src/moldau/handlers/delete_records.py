"""DeleteRecords, versions 0-2: delete records before an offset (KIP-107).

    v2  flexible

The log start offset moves at once, never back, and never past the high watermark; the segments that lie
wholly before it go with the next round of retention. Offset -1 means the high watermark. Kafka refuses it for
topics that are only compacted.
"""

from collections.abc import Generator

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


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
    if partition is None:
        error_code, low_watermark = broker.replicas.absence(topic, asked.partition_index), -1
    else:
        error_code, low_watermark = partition.delete_records(asked.offset)
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=low_watermark, error_code=error_code
    )
