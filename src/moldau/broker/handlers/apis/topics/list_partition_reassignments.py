"""ListPartitionReassignments, version 0: the reassignments under way, and what they add and remove (KIP-455).

Any broker answers from its metadata. The client must have Describe on the cluster.
"""

from collections.abc import Generator

from moldau.broker.controller.reassignment import reassigning
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from moldau.common.protocol.operations import Operation


@handles(ListPartitionReassignmentsRequest)
def list_partition_reassignments(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Generator[None, None, ListPartitionReassignmentsResponse]:
    if not may_on_cluster(broker, context.session, Operation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ListPartitionReassignmentsResponse(error_code=code, error_message=code.message)
    asked = None
    if request.topics is not None:
        asked = {topic.name: topic.partition_indexes for topic in request.topics}
    found = yield from reassigning(broker.metadata.image, asked)
    topics = [
        OngoingTopicReassignment(
            name=name,
            partitions=[
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(state.replicas),
                    adding_replicas=list(state.adding),
                    removing_replicas=list(state.removing),
                )
                for index, state in states.items()
            ],
        )
        for name, states in found.items()
    ]
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)
