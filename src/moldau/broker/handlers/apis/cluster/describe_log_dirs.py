"""DescribeLogDirs, versions 1-5: the partitions in each log directory, and the free space (KIP-113, 827).

    v2  flexible    v3  top-level error    v4  total and usable bytes    v5  cordoned dirs (never, here)

The topics asked for limit what is listed; null asks for all. A log that is moving (KIP-113) is in both
directories, as a future one in the new, with how many offsets it is behind. The client must have Describe on
the cluster; before version 3 its lack looks like no directories.
"""

from collections import defaultdict
from collections.abc import Generator

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.log.manager import DirectoryDescription
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from moldau.common.protocol.operations import Operation

Wanted = set[tuple[str, int]] | None


@handles(DescribeLogDirsRequest)
def describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> Generator[None, None, DescribeLogDirsResponse]:
    if not may_on_cluster(broker, context.session, Operation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeLogDirsResponse(error_code=code)
    wanted: Wanted = None
    if request.topics is not None:
        wanted = set()
        for topic in request.topics:
            for index in topic.partitions:
                wanted.add((topic.topic, index))
                yield
    answer = DescribeLogDirsResponse()
    for described in broker.log_manager.describe():
        result = yield from _result(broker, described, wanted)
        answer.results.append(result)
    return answer


def _result(
    broker: Broker, described: DirectoryDescription, wanted: Wanted
) -> Generator[None, None, DescribeLogDirsResult]:
    result = DescribeLogDirsResult(log_dir=described.path)
    if described.offline:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.total_bytes, result.usable_bytes = described.total_bytes, described.usable_bytes
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for log in described.logs:
        yield
        if wanted is not None and (log.topic, log.partition) not in wanted:
            continue
        lag = max(0, broker.replicas.high_watermark_of(log) - log.log_end_offset)
        topics[log.topic].append(
            DescribeLogDirsPartition(
                partition_index=log.partition, partition_size=log.size_bytes, offset_lag=lag
            )
        )
    for log, lag in described.futures:
        if wanted is None or (log.topic, log.partition) in wanted:
            topics[log.topic].append(
                DescribeLogDirsPartition(
                    partition_index=log.partition,
                    partition_size=log.size_bytes,
                    offset_lag=lag,
                    is_future_key=True,
                )
            )
        yield
    result.topics = [DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()]
    return result
