"""OffsetCommit, versions 2-10: a member, or a consumer that manages its partitions itself, commits offsets.

    v5  retention_time_ms is gone           v7  static members
    v6  leader epoch of the offset          v9  member epochs of the consumer protocol (KIP-848)
                                            v10 topic ids
A request whose records cannot fit into one batch of __consumer_offsets is refused as a whole, as Kafka does;
another one with more than ROWS_WHOLE_MAX rows is decided on in pieces (pieces.py).

The client must have Read on the group, and on each topic; the rows of other topics are refused, and the rest
is committed. Not here: transactional commits (TxnOffsetCommit).
"""

from collections.abc import Callable, Generator
from typing import Any

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import by_rows, has_many_rows
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may, serve_permitted
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, Image
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.waiting import Answer, settled, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.common.protocol.operations import Operation, ResourceType

TOPIC_IDS_SINCE = 10
ROWS_WHOLE_MAX = 400
"""As many are committed in one batch, all or none; that takes some 6 ms."""
RECORD_BYTES_MIN = 8 + 10 + 24
"""A committed offset in a batch, without the names in it: record header, key, value."""


@handles(OffsetCommitRequest)
def offset_commit(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> Answer[OffsetCommitResponse]:
    if broker.authorizer is None:
        return _commit(broker, context, request)
    if not may(broker, context.session, Operation.READ, ResourceType.GROUP, request.group_id):
        return _refuse_all(broker, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return serve_permitted(
        broker,
        context,
        request,
        Operation.READ,
        ResourceType.TOPIC,
        topic_name(broker.metadata.image, by_id=context.api_version >= TOPIC_IDS_SINCE),
        lambda topic: _refused_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        lambda: _commit(broker, context, request),
        OffsetCommitResponse,
        many=has_many_rows(request.topics, "partitions"),
    )


def topic_name(image: Image, *, by_id: bool) -> Callable[[Any], str | None]:
    """Gives the name of a request's topic; None if no topic has its id."""
    return (lambda topic: image.topic_names.get(topic.topic_id)) if by_id else (lambda topic: topic.name)


def _commit(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> Answer[OffsetCommitResponse]:
    if has_many_rows(request.topics, "partitions"):
        return _in_pieces(broker, context, request)
    return broker.groups.offset_commit(request, context)


def _refuse_all(
    broker: Broker, request: OffsetCommitRequest, error_code: int
) -> Answer[OffsetCommitResponse]:
    if has_many_rows(request.topics, "partitions"):
        return broker.slow_lane.slices().run(_refused(request, error_code))
    return all_steps(_refused(request, error_code))


async def _in_pieces(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    lane = broker.slow_lane
    counts = partition_counts(broker.metadata.image, by_id=context.api_version >= TOPIC_IDS_SINCE)
    if await lane.slices().run(weigh(request, counts)) > batch_bytes_max(broker, request.group_id):
        return await lane.slices().run(_refused(request, ErrorCode.UNKNOWN_SERVER_ERROR))
    if not has_many_rows(request.topics, "partitions", ROWS_WHOLE_MAX):
        return await settled(broker.groups.offset_commit(request, context))

    def ask(topics: list[Any]) -> Answer[list[OffsetCommitResponseTopic]]:
        piece = OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            retention_time_ms=request.retention_time_ms,
            topics=topics,
        )
        return then(broker.groups.offset_commit(piece, context), lambda response: response.topics)

    return OffsetCommitResponse(topics=await by_rows(lane, request.topics, "partitions", ask))


def partition_counts(image: Image, *, by_id: bool) -> Callable[[Any], tuple[str, int]]:
    """Gives a topic's name and its number of partitions, 0 where there is no such topic."""

    def of(topic: Any) -> tuple[str, int]:
        name = image.topic_names.get(topic.topic_id) if by_id else topic.name
        state = None if name is None else image.topics.get(name)
        return ("", 0) if state is None else (state.name, len(state.partitions))

    return of


def weigh(request: Any, counts: Callable[[Any], tuple[str, int]]) -> Generator[None, None, int]:
    """The least size of the request's records in the log, in bytes; computed in steps."""
    size_bytes = 0
    for topic in request.topics:
        name, count = counts(topic)
        each_bytes = RECORD_BYTES_MIN + len(request.group_id) + len(name)
        for row in topic.partitions:
            if 0 <= row.partition_index < count:
                size_bytes += each_bytes + len(row.committed_metadata or "")
            yield
        yield
    return size_bytes


def batch_bytes_max(broker: Broker, group_id: str) -> int:
    """The largest batch that the group's partition of __consumer_offsets takes."""
    partition = broker.replicas.partition(GROUP_OFFSETS_TOPIC, broker.groups.partition_for(group_id))
    return 2**63 if partition is None else partition.log.settings.max_message_bytes


def _refused(request: OffsetCommitRequest, error_code: int) -> Generator[None, None, OffsetCommitResponse]:
    response = OffsetCommitResponse()
    for topic in request.topics:
        refused = yield from _refused_topic(topic, error_code)
        response.topics.append(refused)
    return response


def _refused_topic(topic: Any, error_code: int) -> Generator[None, None, OffsetCommitResponseTopic]:
    rows = []
    for row in topic.partitions:
        rows.append(OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error_code))
        yield
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=rows)
