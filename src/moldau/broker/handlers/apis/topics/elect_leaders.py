"""ElectLeaders, versions 0-2: elect the preferred leader of partitions, or (v1) any live replica.

    v1  the kind of election (KIP-460): 0 preferred, 1 unclean

ELECTION_NOT_NEEDED is an error for a partition that was named; where all were asked for, such partitions are
left out. The client must have Alter on the cluster. Not here: timeout_ms; the response leaves when the
election is done.
"""

from collections.abc import Generator

from moldau.broker.controller.election import ElectionType
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from moldau.common.protocol.operations import Operation

FOR_ALL_SINCE = 1
"""The first version of the response with an error of its own."""


@handles(ElectLeadersRequest)
async def elect_leaders(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    if not may_on_cluster(broker, context.session, Operation.ALTER):
        return await broker.slow_lane.slices().run(_refused(context, request))
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    asked: dict[str, list[int]] | None = None
    if request.topic_partitions is not None:
        asked = {}
        for topic in request.topic_partitions:
            known = asked.setdefault(topic.topic, [])
            known += [index for index in dict.fromkeys(topic.partitions) if index not in known]
    outcome, results = await broker.controller.elect_leaders(kind, asked)
    return ElectLeadersResponse(
        error_code=outcome.error_code if context.api_version >= FOR_ALL_SINCE else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index, error_code=outcome.error_code, error_message=outcome.message
                    )
                    for index, outcome in partitions
                ],
            )
            for topic, partitions in results.items()
        ],
    )


def _refused(
    context: RequestContext, request: ElectLeadersRequest
) -> Generator[None, None, ElectLeadersResponse]:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results = []
    for topic in request.topic_partitions or ():
        rows = []
        for index in topic.partitions:
            rows.append(PartitionResult(partition_id=index, error_code=code, error_message=code.message))
            yield
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=rows))
        yield
    for_all = code if context.api_version >= FOR_ALL_SINCE else ErrorCode.NONE
    return ElectLeadersResponse(error_code=for_all, replica_election_results=results)
