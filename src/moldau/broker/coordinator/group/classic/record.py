"""Converts a classic group's membership to its GroupMetadata record and back."""

from moldau.broker.coordinator.group.classic.member import ClassicMember
from moldau.broker.coordinator.group.classic.membership import Membership
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.common.protocol.messages.coordinator_records import GroupMetadataValue, MemberMetadata


def membership_of(value: GroupMetadataValue) -> Membership:
    """The group that a record describes: stable with all members, or empty."""
    membership = Membership(value.current_state_timestamp)
    membership.generation = value.generation
    membership.protocol_type = value.protocol_type or ""
    membership.protocol_name = value.protocol
    for row in value.members:
        timeout_ms = row.session_timeout if row.rebalance_timeout == -1 else row.rebalance_timeout
        membership.put(
            ClassicMember(
                row.member_id,
                row.group_instance_id,
                row.client_id,
                row.client_host,
                timeout_ms,
                row.session_timeout,
                ((value.protocol or "", bytes(row.subscription or b"")),),
                bytes(row.assignment or b""),
            )
        )
    if value.members:
        membership.state = ClassicState.STABLE
    membership.leader_id = value.leader
    membership.refresh_topics()
    return membership


def value_of(membership: Membership) -> GroupMetadataValue:
    """The record's value: what `membership_of` needs."""
    return GroupMetadataValue(
        protocol_type=membership.protocol_type,
        generation=membership.generation,
        protocol=membership.protocol_name,
        leader=membership.leader_id,
        current_state_timestamp=membership.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(membership.protocol_name),
                assignment=member.assignment,
            )
            for member in membership.members.values()
        ],
    )
