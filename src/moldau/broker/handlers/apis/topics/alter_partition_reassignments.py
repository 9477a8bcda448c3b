"""AlterPartitionReassignments, versions 0-1: give partitions other replicas, or cancel that (null replicas).

    v1  may forbid a change of the number of replicas (KIP-860)

The response leaves when the reassignments are in the metadata; the copying takes its time
(ListPartitionReassignments tells how far it is). The client must have Alter on the cluster. Not here: the
decision (controller/reassignment.py).
"""

from collections.abc import Generator

from moldau.broker.controller.reassignment import Move
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from moldau.common.protocol.operations import Operation


@handles(AlterPartitionReassignmentsRequest)
async def alter_partition_reassignments(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    if not may_on_cluster(broker, context.session, Operation.ALTER):
        return await broker.slow_lane.slices().run(_refused(request))
    moves: list[Move] = [
        (topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    outcomes = await broker.controller.reassign(
        moves, allow_factor_change=request.allow_replication_factor_change
    )
    responses: dict[str, ReassignableTopicResponse] = {}
    for (name, index, _), outcome in outcomes:
        topic = responses.setdefault(name, ReassignableTopicResponse(name=name, partitions=[]))
        topic.partitions.append(
            ReassignablePartitionResponse(
                partition_index=index, error_code=outcome.error_code, error_message=outcome.message
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=list(responses.values()),
    )


def _refused(
    request: AlterPartitionReassignmentsRequest,
) -> Generator[None, None, AlterPartitionReassignmentsResponse]:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    responses = []
    for topic in request.topics:
        rows = []
        for partition in topic.partitions:
            rows.append(
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index, error_code=code, error_message=code.message
                )
            )
            yield
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=rows))
        yield
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=code,
        error_message=code.message,
        responses=responses,
    )
