"""ShareAcknowledge, versions 1-2: a member of a share group has dealt with records (KIP-932).

    v2  renewals, and how long the locks then last (KIP-1222)

A request of the member's share session, whose epochs it shares with ShareFetch; the final one closes it, and
what the member still has acquired is available again. Answered once it is written. The client must have Read
on the group and on each topic.
"""

from collections.abc import Awaitable

from moldau.broker.handlers.apis.share.share_access import MOVED, Places, refusal
from moldau.broker.handlers.apis.share.share_acks import Acknowledging
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, MemberKey, ShareSession
from moldau.common.protocol.errors import ErrorCode, error_message
from moldau.common.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


@handles(ShareAcknowledgeRequest)
def share_acknowledge(
    broker: Broker, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    refused = refusal(broker, context, request.group_id, request.member_id)
    if refused is not None:
        return ShareAcknowledgeResponse(error_code=refused.error_code, error_message=refused.message)
    return _acknowledge(broker, context, request)


async def _acknowledge(
    broker: Broker, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    member = MemberKey(request.group_id or "", request.member_id or "")
    sessions = broker.share.sessions
    session: ShareSession | ErrorCode
    if request.share_session_epoch == INITIAL_EPOCH:
        session = ErrorCode.INVALID_SHARE_SESSION_EPOCH
    else:
        session = sessions.resume(member, request.share_session_epoch, context.session)
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session, error_message=session.message)
    places = Places(broker, context, member)
    acks = Acknowledging(broker, places, member, renews=request.is_renew_ack)
    await acks.take(request.topics, broker.slow_lane.slices())
    await acks.written()
    if request.share_session_epoch == FINAL_EPOCH:
        sessions.close(session)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.share.terms_of(member.group_id).limits.lock_ms
    )
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), code in acks.codes.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id)
            response.responses.append(topic)
        row = PartitionData(partition_index=index, error_code=code)
        if code:
            row.error_message = error_message(code)
        if code in MOVED:
            leader_id, leader_epoch = places.leader(topic_id, index)
            row.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        topic.partitions.append(row)
    response.node_endpoints = [
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in places.endpoints(context.session.listener)
    ]
    return response
