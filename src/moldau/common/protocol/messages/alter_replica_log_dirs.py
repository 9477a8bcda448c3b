"""AlterReplicaLogDirs (key 34, versions 1-2): move replicas between a broker's log directories.

v2   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import Int16, Int32, Message, String, Struct, array, message, response_to


@message(key=34, versions=(1, 2), flexible_from=2)
class AlterReplicaLogDirsRequest(Message):
    """Directories, and the partitions that are to live there."""

    dirs: list[AlterReplicaLogDir] = array()


class AlterReplicaLogDir(Struct):
    path: String = ""
    topics: list[AlterReplicaLogDirTopic] = array()


class AlterReplicaLogDirTopic(Struct):
    name: String = ""
    partitions: list[Int32] = array()


@response_to(AlterReplicaLogDirsRequest)
class AlterReplicaLogDirsResponse(Message):
    """An error code for each partition."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = array()


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = array()


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
