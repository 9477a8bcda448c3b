"""AlterReplicaLogDirs, versions 1-2: move this broker's replicas between its log directories (KIP-113).

    v2  flexible

The response leaves when the copying has begun; DescribeLogDirs tells how far it is. For a partition that has
no replica here yet, the directory is remembered for its creation, and the row is refused, as in Kafka: with
REPLICA_NOT_AVAILABLE (tools ask for the directory first, and then for the reassignment), or with
UNKNOWN_TOPIC_OR_PARTITION before there is such a topic. The client must have Alter on the cluster. Not here:
the move itself (files/directory_moves.py).
"""

from collections.abc import Generator

from moldau.broker.controller.names import name_complaint
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.log.files.directory import LogDirectory
from moldau.broker.log.files.directory_moves import NameTooLong
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from moldau.common.protocol.operations import Operation


@handles(AlterReplicaLogDirsRequest)
def alter_replica_log_dirs(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Generator[None, None, AlterReplicaLogDirsResponse]:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    permitted = may_on_cluster(broker, context.session, Operation.ALTER)
    for asked in request.dirs:
        directory = broker.log_manager.directories.at(asked.path)
        for topic in asked.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                code = (
                    _move(broker, topic.name, index, directory)
                    if permitted
                    else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                )
                result.partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
                yield
            yield
        yield
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, topic: str, index: int, directory: LogDirectory | None) -> int:
    """Begin the move; its error code."""
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    known = broker.metadata.image.topics.get(topic)
    if directory.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if known is None or not 0 <= index < len(known.partitions):
        if index >= 0 and name_complaint(topic) is None:
            broker.log_manager.prefer(topic, index, directory)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = broker.replicas.partition(topic, index)
    if partition is None:
        broker.log_manager.prefer(topic, index, directory)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if not partition.online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        broker.log_manager.moves.ask(partition.log, directory)
    except NameTooLong:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return 0
