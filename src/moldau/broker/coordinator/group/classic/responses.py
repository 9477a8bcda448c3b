"""The successful responses of a classic group to JoinGroup and SyncGroup."""

from moldau.broker.coordinator.group.classic.member import ClassicMember
from moldau.broker.coordinator.group.classic.membership import Membership
from moldau.common.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from moldau.common.protocol.messages.sync_group import SyncGroupResponse


def join_response(
    membership: Membership, member_id: str, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The present generation, told to a member; only the leader gets the list of members."""
    leads = member_id == membership.leader_id
    return JoinGroupResponse(
        generation_id=membership.generation,
        protocol_type=membership.protocol_type or None,
        protocol_name=membership.protocol_name or "",
        leader=membership.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(membership.protocol_name),
            )
            for member in (membership.members.values() if leads else ())
        ],
    )


def sync_response(membership: Membership, member: ClassicMember) -> SyncGroupResponse:
    """A member's part of the assignment."""
    return SyncGroupResponse(
        protocol_type=membership.protocol_type or None,
        protocol_name=membership.protocol_name,
        assignment=member.assignment,
    )
