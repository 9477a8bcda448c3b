"""ListPartitionReassignments, version 0: the reassignments under way, and what they add and remove (KIP-455).

Any broker answers from its metadata.
"""

from collections.abc import Generator

from moldau.controller.reassignment import reassigning
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@handles(ListPartitionReassignmentsRequest)
def list_partition_reassignments(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Generator[None, None, ListPartitionReassignmentsResponse]:
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
