"""DescribeLogDirs (key 35, versions 1-5): what lies in a broker's log directories, and how full they are.

v2   flexible
v3   answer: top-level error_code
v4   answer: total_bytes and usable_bytes (KIP-827)
v5   answer: is_cordoned (KIP-1066)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
)


@message(key=35, versions=(1, 5), flexible_from=2)
class DescribeLogDirsRequest(Message):
    """Partitions to describe; null means all."""

    topics: list[DescribableLogDirTopic] | None = array()


class DescribableLogDirTopic(Struct):
    topic: String = ""
    partitions: list[Int32] = array()


@response_to(DescribeLogDirsRequest)
class DescribeLogDirsResponse(Message):
    """Directories with their replicas, sizes and lags."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, ignorable=True)
    results: list[DescribeLogDirsResult] = array()


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = array()
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: Bool = since(5, ignorable=True)


class DescribeLogDirsTopic(Struct):
    name: String = ""
    partitions: list[DescribeLogDirsPartition] = array()


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False
