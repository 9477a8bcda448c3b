"""DescribeTopicPartitions, version 0: topics and their partitions, a page at a time (KIP-966).

Topics come in the order of their names. A page ends after `response_partition_limit` partitions, or fewer if
the broker's max.request.partition.size.limit says so; the cursor then names the partition that the next page
begins with. A topic without Describe is refused if it was named; where all are asked for, it is left out.
"""

from bisect import bisect_left
from collections.abc import Generator

from moldau.broker.controller.names import name_complaint
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.cluster_view import ClusterView
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import apart, authorized_operations
from moldau.broker.metadata.image import INTERNAL_TOPICS, PartitionState, TopicState
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(DescribeTopicPartitionsRequest)
def describe_topic_partitions(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    image = broker.metadata.image
    asked = {topic.name for topic in request.topics}
    yield
    names = sorted(asked or image.topics)  # (half a million names: 0.2 s; there is no cheaper order)
    yield
    refused: list[str] = []
    if broker.authorizer is not None:
        names, refused = yield from apart(
            broker, context.session, Operation.DESCRIBE, ResourceType.TOPIC, names, str, quiet=not asked
        )
    start_index = 0
    if request.cursor is not None:
        names = names[bisect_left(names, request.cursor.topic_name) :]
        if names and names[0] == request.cursor.topic_name:
            start_index = max(0, request.cursor.partition_index)
    view = ClusterView(image, context.session.listener)
    room = max(1, min(request.response_partition_limit, broker.settings.max_request_partition_size_limit))
    answer = DescribeTopicPartitionsResponse(topics=[], next_cursor=None)
    for name in refused if asked else ():
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer.topics.append(DescribeTopicPartitionsResponseTopic(name=name, error_code=code))
        yield
    for name in names:
        yield
        if room <= 0:
            answer.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            answer.topics.append(_absent(name))
            continue
        end_index = min(len(topic.partitions), start_index + room)
        described = _described(topic, start_index, end_index, view)
        described.topic_authorized_operations = authorized_operations(
            broker, context.session, ResourceType.TOPIC, name
        )
        answer.topics.append(described)
        if end_index < len(topic.partitions):
            answer.next_cursor = Cursor(topic_name=name, partition_index=end_index)
            break
        room -= end_index - start_index
        start_index = 0
    return answer


def _absent(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if name_complaint(name) is None
            else ErrorCode.INVALID_TOPIC_EXCEPTION
        ),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _described(
    topic: TopicState, start_index: int, end_index: int, view: ClusterView
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[
            _partition(topic.topic_id, index, topic.partitions[index], view)
            for index in range(start_index, end_index)
        ],
    )


def _partition(
    topic_id: bytes, index: int, state: PartitionState, view: ClusterView
) -> DescribeTopicPartitionsResponsePartition:
    error_code, leader = view.leader_of(state)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error_code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.doubtful),
        offline_replicas=view.offline_replicas(topic_id, index, state),
    )
