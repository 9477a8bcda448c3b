"""DescribeQuorum, versions 0-2: the metadata log's leader and replicas, and how far each is (KIP-595).

    v1  when each replica fetched last (KIP-836)      v2  directory ids, addresses, messages (KIP-853)

In Kafka the controllers replicate `__cluster_metadata`-0, and tools ask for that partition. Here the metadata
store's version is reported as the offset, the controller as leader and only voter, the controller epoch as
leader epoch. Any other partition gets UNKNOWN_TOPIC_OR_PARTITION. The client must have Describe on the
cluster. Not here: stores that several nodes share.
"""

from collections.abc import Generator, Sequence

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.metadata.image import Image
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    QuorumListener,
    QuorumNode,
    ReplicaState,
    TopicData,
    TopicRequest,
)
from moldau.common.protocol.operations import Operation

METADATA_TOPIC, METADATA_PARTITION = "__cluster_metadata", 0


@handles(DescribeQuorumRequest)
def describe_quorum(
    broker: Broker, context: RequestContext, request: DescribeQuorumRequest
) -> Generator[None, None, DescribeQuorumResponse]:
    if not may_on_cluster(broker, context.session, Operation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=code, error_message=code.message)
    if _asks_for_the_quorum(request.topics):
        image = broker.metadata.image
        row = TopicData(topic_name=METADATA_TOPIC, partitions=[_quorum(broker, image)])
        return DescribeQuorumResponse(topics=[row], nodes=_nodes(image))
    # As in Kafka, the whole question is refused when anything else is in it.
    rows = []
    for topic in request.topics:
        refused = []
        for one in topic.partitions:
            refused.append(
                PartitionData(
                    partition_index=one.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=f"Only {METADATA_TOPIC}-{METADATA_PARTITION} has a quorum.",
                )
            )
            yield
        rows.append(TopicData(topic_name=topic.topic_name, partitions=refused))
        yield
    return DescribeQuorumResponse(topics=rows)


def _asks_for_the_quorum(topics: Sequence[TopicRequest]) -> bool:
    return (
        len(topics) == 1
        and topics[0].topic_name == METADATA_TOPIC
        and len(topics[0].partitions) == 1
        and topics[0].partitions[0].partition_index == METADATA_PARTITION
    )


def _quorum(broker: Broker, image: Image) -> PartitionData:
    now_ms = broker.clock.now_ms()
    directory = broker.log_manager.directories.at(_metadata_folder(broker))
    holder = ReplicaState(
        replica_id=image.controller_id,
        replica_directory_id=bytes(16) if directory is None else directory.directory_id,
        log_end_offset=image.version,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=image.controller_id,
        leader_epoch=image.controller_epoch,
        high_watermark=image.version,
        current_voters=[holder],
    )


def _metadata_folder(broker: Broker) -> str:
    settings = broker.settings
    return settings.metadata_log_dir or settings.data_directories[0]


def _nodes(image: Image) -> list[QuorumNode]:
    """Where the controller is reached: it answers on its broker's listeners."""
    state = image.brokers.get(image.controller_id)
    if state is None:
        return []
    listeners = [
        QuorumListener(name=name, host=host, port=port) for name, (host, port) in state.endpoints.items()
    ]
    return [QuorumNode(node_id=state.node_id, listeners=listeners)]
