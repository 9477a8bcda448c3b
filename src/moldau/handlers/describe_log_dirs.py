"""DescribeLogDirs, versions 1-5: what lies in each log directory, and what room is left (KIP-113, 827).

    v2  flexible    v3  top-level error    v4  total and usable bytes    v5  cordoned dirs (never, here)

The topics asked for limit what is listed; null asks for all.
"""

import shutil
from collections import defaultdict
from pathlib import Path

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from moldau.replication.partition import Partition


@handles(DescribeLogDirsRequest)
def describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    held: dict[Path, list[Partition]] = defaultdict(list)
    for partition in broker.replicas.partitions():
        if wanted is None or (partition.topic, partition.index) in wanted:
            held[partition.log.directory.parent].append(partition)
    return DescribeLogDirsResponse(
        results=[_result(broker, directory, held[directory]) for directory in broker.log_manager.log_dirs]
    )


def _result(broker: Broker, directory: Path, partitions: list[Partition]) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=str(directory.absolute()))
    if directory in broker.log_manager.offline_dirs:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.total_bytes, result.usable_bytes = usage.total, usage.free
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for partition in partitions:
        topics[partition.topic].append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
                offset_lag=max(0, partition.high_watermark - partition.log.log_end_offset),
            )
        )
    result.topics = [DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()]
    return result
