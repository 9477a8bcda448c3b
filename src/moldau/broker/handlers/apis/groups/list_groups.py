"""ListGroups, versions 0-5: the groups that this broker coordinates.

    v4  states, to filter by and in the answer
    v5  types (classic, consumer), to filter by and in the answer
Filters ignore case; an unknown state or type matches nothing. Groups without Describe are left out, unless
the client has Describe on the cluster.
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import granted, may_on_cluster
from moldau.common.core.waiting import Answer, settled
from moldau.common.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.common.protocol.operations import Operation, ResourceType

GROUPS_AT_ONCE = 500


@handles(ListGroupsRequest)
def list_groups(
    broker: Broker, context: RequestContext, request: ListGroupsRequest
) -> Answer[ListGroupsResponse]:
    counts = broker.groups.group_counts_by_partition()
    if sum(counts.values()) <= GROUPS_AT_ONCE:
        outcome = broker.groups.list_groups(request, context)
    else:
        outcome = _shard_by_shard(broker, context, request, list(counts))
    if may_on_cluster(broker, context.session, Operation.DESCRIBE, quiet=True):
        return outcome
    return _granted(broker, context, outcome)


async def _granted(
    broker: Broker, context: RequestContext, outcome: Answer[ListGroupsResponse]
) -> ListGroupsResponse:
    response = await settled(outcome)
    response.groups = await settled(
        granted(
            broker,
            context.session,
            Operation.DESCRIBE,
            ResourceType.GROUP,
            response.groups,
            lambda group: group.group_id,
        )
    )
    return response


async def _shard_by_shard(
    broker: Broker, context: RequestContext, request: ListGroupsRequest, partitions: list[int]
) -> ListGroupsResponse:
    slices = broker.slow_lane.slices()
    together = ListGroupsResponse()
    for partition in partitions:
        response = await settled(broker.groups.list_groups(request, context, (partition,)))
        if response.error_code:
            return ListGroupsResponse(error_code=response.error_code)
        together.groups += response.groups
        if slices.spent():
            await slices.next_slice()
    return together
