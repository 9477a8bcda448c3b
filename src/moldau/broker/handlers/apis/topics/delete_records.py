"""DeleteRecords, versions 0-2: delete records before an offset (KIP-107).

    v2  flexible

The log start offset moves at once, never back, and never past the high watermark; the segments that lie
wholly before it go with the next round of retention. The response waits until all live replicas have moved
theirs (replication/deletions.py), and until this broker has written it down: who was told that records are
deleted does not meet them again after a crash. The client must have Delete on each topic. Offset -1 means
the high watermark. Kafka refuses it for topics that are only compacted.
"""

import asyncio
from collections.abc import Collection, Generator

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.broker.log.files.directory import LogDirectory
from moldau.broker.replication.deletions import Deleted
from moldau.broker.replication.partition import Partition
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from moldau.common.protocol.operations import Operation, ResourceType

Pending = list[tuple[DeleteRecordsPartitionResult, "asyncio.Future[Deleted]"]]
"""Rows whose outcome is not known yet."""
Changed = list[tuple[DeleteRecordsPartitionResult, Partition, LogDirectory | None]]


@handles(DeleteRecordsRequest)
async def delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    changed: Changed = []
    response, pending = await broker.slow_lane.slices().run(delete_all(broker, context, request, changed))
    for row, future in pending:
        row.error_code, row.low_watermark = await future
    await _written_down(broker, changed)
    return response


async def _written_down(broker: Broker, changed: Changed) -> None:
    """Wait until the new beginnings are in the checkpoints; rows whose disk has failed at that, or is full,
    say so: a restart would bring the records back.
    """
    checkpoints = broker.log_manager.checkpoints
    directories = dict.fromkeys(directory for _, _, directory in changed if directory is not None)
    if directories:
        written: asyncio.Future[Collection[LogDirectory]] = asyncio.get_running_loop().create_future()

        def done(unwritten: Collection[LogDirectory]) -> None:
            if not written.done():
                written.set_result(unwritten)

        checkpoints.save_log_starts(directories, done)
        unwritten = await written
        for row, partition, directory in changed:
            if (directory in unwritten or partition.log.offline) and not row.error_code:
                row.error_code, row.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, -1


def delete_all(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest, changed: Changed
) -> Generator[None, None, tuple[DeleteRecordsResponse, Pending]]:
    """Delete here, in steps; the response, and what must be waited for before it leaves. `changed`: gets the
    partitions whose beginning has moved, each with its row."""
    answer = DeleteRecordsResponse()
    pending: Pending = []
    for topic in request.topics:
        rows = []
        permitted = may(broker, context.session, Operation.DELETE, ResourceType.TOPIC, topic.name)
        # Of a partition that is named twice, the last row counts, as in Kafka.
        last = {asked.partition_index: asked for asked in topic.partitions}
        yield
        for asked in last.values():
            if permitted:
                rows.append(_delete(broker, topic.name, asked, request.timeout_ms, pending, changed))
            else:
                rows.append(_refused(asked))
            yield
        answer.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    return answer, pending


def _refused(asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=code
    )


def _delete(
    broker: Broker,
    topic: str,
    asked: DeleteRecordsPartition,
    timeout_ms: int,
    pending: Pending,
    changed: Changed,
) -> DeleteRecordsPartitionResult:
    row = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    partition = broker.replicas.partition(topic, asked.partition_index)
    if partition is None:
        row.error_code = broker.replicas.absence(topic, asked.partition_index)
        return row
    deleted = broker.replicas.deletions.delete(partition, asked.offset, timeout_ms)
    if isinstance(deleted, Deleted):
        row.error_code, row.low_watermark = deleted
    else:
        pending.append((row, deleted))
    if not row.error_code:
        changed.append((row, partition, broker.log_manager.checkpoints.note_log_start(partition.log)))
    return row
