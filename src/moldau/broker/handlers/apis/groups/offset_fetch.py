"""OffsetFetch, versions 1-10: the committed offsets of groups.

    v2  all topics (null)                   v8  several groups at once
    v5  leader epochs                       v9  member id and epoch of the consumer protocol (KIP-848)
    v7  require_stable: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447)
                                            v10 topic ids
Many partitions are looked up in pieces (pieces.py). Up to version 7 there is one group; in version 1 its
error stands in the partitions.

The client must have Describe on each group, else it learns nothing about it, and on each topic: the rows of
another topic are refused, and left out where all were asked for.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from moldau.broker.handlers.apis.groups.offset_commit import topic_name
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import ROWS_AT_ONCE, by_rows, has_many_rows
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import apart, may
from moldau.common.core.ids import ZERO_UUID
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.waiting import Answer, settled, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from moldau.common.protocol.operations import Operation, ResourceType

TOPIC_IDS_SINCE = 10
SEVERAL_GROUPS_SINCE = 8
GROUP_ERROR_SINCE = 2


@handles(OffsetFetchRequest)
def offset_fetch(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> Answer[OffsetFetchResponse]:
    several = request if context.api_version >= SEVERAL_GROUPS_SINCE else _several(request)
    if broker.authorizer is not None:
        return _permitted(broker, context, request, several)
    if len(several.groups) > ROWS_AT_ONCE or any(_is_large(broker, group) for group in several.groups):
        return _in_pieces(broker, context, request, several)
    outcome = broker.groups.offset_fetch(several, context)
    if several is request:
        return outcome
    return then(outcome, lambda response: all_steps(_single(request, response, context.api_version)))


async def _permitted(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest, several: OffsetFetchRequest
) -> OffsetFetchResponse:
    """The same where an authorizer decides: group by group."""
    slices = broker.slow_lane.slices()
    response = OffsetFetchResponse()
    for group in several.groups:
        if may(broker, context.session, Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            found = await _fetch_permitted(broker, context, group, several.require_stable)
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            found = OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
        response.groups.append(found)
        if slices.spent():
            await slices.next_slice()
    if several is request:
        return response
    return await slices.run(_single(request, response, context.api_version))


async def _fetch_permitted(
    broker: Broker, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """One group's offsets, without those of topics that the client may not describe."""
    slices = broker.slow_lane.slices()
    by_id = context.api_version >= TOPIC_IDS_SINCE
    name = topic_name(broker.metadata.image, by_id=by_id)
    describe, kind = Operation.DESCRIBE, ResourceType.TOPIC
    refused: list[OffsetFetchRequestTopics] = []
    everything = group.topics is None
    if group.topics is not None:
        steps = apart(broker, context.session, describe, kind, group.topics, name)
        group.topics, refused = await slices.run(steps)
        if refused and not group.topics:
            found = OffsetFetchResponseGroup(group_id=group.group_id)
            found.topics = await slices.run(_forbidden(refused))
            return found
    if _is_large(broker, group):
        found = await _fetch_in_pieces(broker, context, group, require_stable)
    else:
        found = await settled(_ask(broker, context, group, require_stable))
    if everything:
        name = topic_name(broker.metadata.image, by_id=by_id)  # another topic may have come meanwhile
        rows = apart(broker, context.session, describe, kind, found.topics, name, quiet=True)
        found.topics, _ = await slices.run(rows)
    elif refused and not found.error_code:
        found.topics += await slices.run(_forbidden(refused))
    return found


def _forbidden(
    topics: Sequence[OffsetFetchRequestTopics],
) -> Generator[None, None, list[OffsetFetchResponseTopics]]:
    """The rows of topics that the client may not describe."""
    answered = []
    for topic in topics:
        rows = []
        for index in topic.partition_indexes:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            row = OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=code
            )
            rows.append(row)
            yield
        answered.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=rows))
    return answered


def _is_large(broker: Broker, group: OffsetFetchRequestGroup) -> bool:
    if group.topics is None:
        return len(_committed(broker, group.group_id)) > ROWS_AT_ONCE
    return has_many_rows(group.topics, "partition_indexes")


def _committed(broker: Broker, group_id: str) -> Mapping[tuple[str, int], Any]:
    groups = broker.groups
    shard = groups.runtime.state(groups.partition_for(group_id))
    return {} if shard is None else shard.offsets.by_group.get(group_id, {})


async def _in_pieces(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest, several: OffsetFetchRequest
) -> OffsetFetchResponse:
    slices = broker.slow_lane.slices()
    response = OffsetFetchResponse()
    for group in several.groups:
        if _is_large(broker, group):
            found = await _fetch_in_pieces(broker, context, group, several.require_stable)
        else:
            found = await settled(_ask(broker, context, group, several.require_stable))
        response.groups.append(found)
        if slices.spent():
            await slices.next_slice()
    if several is request:
        return response
    return await slices.run(_single(request, response, context.api_version))


async def _fetch_in_pieces(
    broker: Broker, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    lane = broker.slow_lane
    topics = group.topics
    if topics is None:
        by_id = context.api_version >= TOPIC_IDS_SINCE
        topics = await lane.slices().run(_all_topics(broker, group.group_id, by_id))
    error_code = 0

    def ask(asked: list[OffsetFetchRequestTopics]) -> Answer[list[OffsetFetchResponseTopics]]:
        piece = OffsetFetchRequestGroup(
            group_id=group.group_id,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topics=asked,
        )

        def topics_of(found: OffsetFetchResponseGroup) -> list[OffsetFetchResponseTopics]:
            nonlocal error_code
            error_code = error_code or found.error_code
            return [OffsetFetchResponseTopics() for _ in asked] if found.error_code else found.topics

        return then(_ask(broker, context, piece, require_stable), topics_of)

    found = await by_rows(lane, topics, "partition_indexes", ask)
    if error_code:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error_code)
    if group.topics is None:
        found = await lane.slices().run(_without_missing(found))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=found)


def _ask(
    broker: Broker, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> Answer[OffsetFetchResponseGroup]:
    request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
    return then(broker.groups.offset_fetch(request, context), lambda response: response.groups[0])


def _all_topics(
    broker: Broker, group_id: str, by_id: bool
) -> Generator[None, None, list[OffsetFetchRequestTopics]]:
    """Every partition of which the group has an offset, in order."""
    image = broker.metadata.image
    indexes: dict[str, list[int]] = {}
    for name, index in list(_committed(broker, group_id)):
        indexes.setdefault(name, []).append(index)
        yield
    topics = []
    for name in sorted(indexes):
        state = image.topics.get(name)
        if state is not None or not by_id:
            topic_id = ZERO_UUID if state is None else state.topic_id
            topics.append(
                OffsetFetchRequestTopics(
                    name=name, topic_id=topic_id, partition_indexes=sorted(indexes[name])
                )
            )
        yield
    return topics


def _without_missing(
    topics: list[OffsetFetchResponseTopics],
) -> Generator[None, None, list[OffsetFetchResponseTopics]]:
    """A response about all partitions leaves out those without an offset."""
    for topic in topics:
        topic.partitions = [row for row in topic.partitions if row.committed_offset >= 0 or row.error_code]
        yield
    return [topic for topic in topics if topic.partitions]


def _several(request: OffsetFetchRequest) -> OffsetFetchRequest:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return OffsetFetchRequest(groups=[group], require_stable=request.require_stable)


def _single(
    request: OffsetFetchRequest, response: OffsetFetchResponse, version: int
) -> Generator[None, None, OffsetFetchResponse]:
    group = response.groups[0]
    if group.error_code and version < GROUP_ERROR_SINCE:
        return OffsetFetchResponse(topics=_refused(request, group.error_code))
    topics = []
    for topic in group.topics:
        rows = []
        for row in topic.partitions:
            rows.append(
                OffsetFetchResponsePartition(
                    partition_index=row.partition_index,
                    committed_offset=row.committed_offset,
                    committed_leader_epoch=row.committed_leader_epoch,
                    metadata=row.metadata,
                    error_code=row.error_code,
                )
            )
            yield
        topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=rows))
        yield
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
