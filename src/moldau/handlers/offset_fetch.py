"""OffsetFetch, versions 1-10: how far groups have come.

    v2  all topics (null)                   v8  several groups at once
    v5  leader epochs                       v9  member id and epoch of the consumer protocol (KIP-848)
    v7  require_stable: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447)
                                            v10 topic ids
Up to version 7 there is one group; version 1 has no place for its error but the partitions.
"""

from typing import Any

from moldau.core.waiting import then
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

SEVERAL_GROUPS_SINCE = 8
GROUP_ERROR_SINCE = 2


@handles(OffsetFetchRequest)
def offset_fetch(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> Any:
    if context.api_version >= SEVERAL_GROUPS_SINCE:
        return broker.groups.offset_fetch(request, context)
    outcome = broker.groups.offset_fetch(_several(request), context)
    return then(outcome, lambda response: _single(request, response, context.api_version))


def _several(request: OffsetFetchRequest) -> OffsetFetchRequest:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return OffsetFetchRequest(groups=[group], require_stable=request.require_stable)


def _single(request: OffsetFetchRequest, response: OffsetFetchResponse, version: int) -> OffsetFetchResponse:
    group = response.groups[0]
    if group.error_code and version < GROUP_ERROR_SINCE:
        return OffsetFetchResponse(topics=_refused(request, group.error_code))
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=row.partition_index,
                    committed_offset=row.committed_offset,
                    committed_leader_epoch=row.committed_leader_epoch,
                    metadata=row.metadata,
                    error_code=row.error_code,
                )
                for row in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _refused(request: OffsetFetchRequest, error_code: int) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=error_code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]
