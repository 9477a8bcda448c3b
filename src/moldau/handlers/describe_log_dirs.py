"""DescribeLogDirs, versions 1-5: what lies in each log directory, and what room is left (KIP-113, 827).

    v2  flexible    v3  top-level error    v4  total and usable bytes    v5  cordoned dirs (never, here)

The topics asked for limit what is listed; null asks for all.
"""

from collections import defaultdict

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.log.manager import DirectoryDescription
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

Wanted = set[tuple[str, int]] | None


@handles(DescribeLogDirsRequest)
def describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    wanted: Wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_result(broker, described, wanted) for described in broker.log_manager.describe()]
    )


def _result(broker: Broker, described: DirectoryDescription, wanted: Wanted) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=described.path)
    if described.offline:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.total_bytes, result.usable_bytes = described.total_bytes, described.usable_bytes
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for log in described.logs:
        if wanted is not None and (log.topic, log.partition) not in wanted:
            continue
        lag = max(0, broker.replicas.high_watermark_of(log) - log.log_end_offset)
        topics[log.topic].append(
            DescribeLogDirsPartition(
                partition_index=log.partition, partition_size=log.size_bytes, offset_lag=lag
            )
        )
    result.topics = [DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()]
    return result
