"""Validates a ShareGroupHeartbeat: is it well-formed, and is its sender a member?"""

from dataclasses import dataclass

from moldau.broker.coordinator.group.share.group import ShareGroup
from moldau.broker.coordinator.group.share.member import JOIN_EPOCH, LEAVE_EPOCH, ShareMember
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


@dataclass(frozen=True, slots=True)
class Rejected:
    """An error code with its message."""

    error_code: int
    message: str

    def response(self) -> ShareGroupHeartbeatResponse:
        """The answer to the client."""
        return ShareGroupHeartbeatResponse(error_code=self.error_code, error_message=self.message)


def check_request(request: ShareGroupHeartbeatRequest) -> Rejected | None:
    """What is wrong with the request itself, whatever the group."""
    sentence = None
    if not request.member_id.strip():
        sentence = "MemberId can't be empty."
    elif not request.group_id.strip():
        sentence = "GroupId can't be empty."
    elif request.rack_id is not None and not request.rack_id.strip():
        sentence = "RackId can't be empty."
    elif request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        sentence = "SubscribedTopicNames must be set in first request."
    elif request.member_epoch < LEAVE_EPOCH:
        sentence = "MemberEpoch is invalid."
    return None if sentence is None else Rejected(ErrorCode.INVALID_REQUEST, sentence)


def admit(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember | Rejected:
    """Find or create the member that sent a heartbeat (not one that leaves)."""
    member = group.members.get(request.member_id)
    if request.member_epoch == JOIN_EPOCH:
        return member or ShareMember(request.member_id)
    if member is None:
        return unknown_member(group, request.member_id)
    return _check_epoch(member, request.member_epoch) or member


def unknown_member(group: ShareGroup, member_id: str) -> Rejected:
    """The sender is not, or no longer, a member of the group."""
    return Rejected(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
    )


def _check_epoch(member: ShareMember, received: int) -> Rejected | None:
    """A member must send its own epoch, or join again. The epoch before is accepted: the answer with the new
    one got lost."""
    known = member.member_epoch
    if received in (known, member.previous_member_epoch):
        return None
    comparison = "greater" if received > known else "smaller"
    return Rejected(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {comparison} member epoch ({received}) than the one known by "
        f"the group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )
