"""Validates a ConsumerGroupHeartbeat: is it well-formed, and is its sender a member?

Every refusal is an error code and a message. The messages name what was sent, because clients log them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    has_all,
)
from moldau.broker.coordinator.group.consumer.reconcile import Owned
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

CLIENT_MADE_ID_VERSION = 1
"""From v1 on the client makes up its member id."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """An error code with its message."""

    error_code: int
    message: str

    def response(self) -> ConsumerGroupHeartbeatResponse:
        """The answer to the client."""
        return ConsumerGroupHeartbeatResponse(error_code=self.error_code, error_message=self.message)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The sender, as the member it was before; `replaces` is the departed static member whose place it
    takes."""

    member: ConsumerMember
    replaces: ConsumerMember | None = None


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """The partitions that the member reports as owned; None if it reports none."""
    if request.topic_partitions is None:
        return None
    return [(row.topic_id, row.partitions) for row in request.topic_partitions]


def check_request(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Sequence[str]
) -> Rejected | None:
    """What is wrong with the request itself, whatever the group."""
    epoch = request.member_epoch
    needs_id = api_version >= CLIENT_MADE_ID_VERSION or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    sentence = None
    if needs_id and not request.member_id.strip():
        sentence = "MemberId can't be empty."
    elif not request.group_id.strip():
        sentence = "GroupId can't be empty."
    elif request.instance_id is not None and not request.instance_id.strip():
        sentence = "InstanceId can't be empty."
    elif request.rack_id is not None and not request.rack_id.strip():
        sentence = "RackId can't be empty."
    elif epoch == JOIN_EPOCH:
        sentence = _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        sentence = "InstanceId can't be null."
    elif epoch < STATIC_LEAVE_EPOCH:
        sentence = "MemberEpoch is invalid."
    if sentence is not None:
        return Rejected(ErrorCode.INVALID_REQUEST, sentence)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        supported = ", ".join(assignors)
        return Rejected(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}.",
        )
    return None


def _check_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def admit(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> Admitted | Rejected:
    """Find or create the member that sent a heartbeat (not one that leaves)."""
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is not None:
        return _admit_static(group, request, member_id, request.instance_id, joins=joins)
    member = group.members.get(member_id)
    if member is None:
        return Admitted(ConsumerMember(member_id)) if joins else unknown_member(group, member_id)
    return check_epoch(member, request) or Admitted(member)


def _admit_static(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    instance_id: str,
    *,
    joins: bool,
) -> Admitted | Rejected:
    holder = group.static_member(instance_id)
    if not joins:
        if holder is None:
            return unknown_instance(instance_id)
        return (
            check_instance(holder, member_id, instance_id) or check_epoch(holder, request) or Admitted(holder)
        )
    if holder is None:
        return Admitted(group.members.get(member_id) or ConsumerMember(member_id))
    if holder.member_epoch != STATIC_LEAVE_EPOCH and holder.classic is None:
        return Rejected(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {holder.member_id} member.",
        )
    return Admitted(holder, replaces=holder)


def unknown_member(group: ConsumerGroup, member_id: str) -> Rejected:
    """The sender is not, or no longer, a member of the group."""
    return Rejected(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
    )


def unknown_instance(instance_id: str) -> Rejected:
    """No static member of that instance id."""
    return Rejected(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def check_instance(holder: ConsumerMember, member_id: str, instance_id: str) -> Rejected | None:
    """Another member has taken over the instance id."""
    if holder.member_id == member_id:
        return None
    return Rejected(
        ErrorCode.FENCED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
    )


def check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> Rejected | None:
    """A member must send its own epoch, or join again, owning nothing. The epoch before is accepted if it
    owns nothing but what it may own now: then only the answer with the new epoch got lost."""
    received, known = request.member_epoch, member.member_epoch
    if received in (known, JOIN_EPOCH):
        return None
    if received < known and received == member.previous_member_epoch:
        owned = owned_partitions(request)
        if owned is not None and has_all(member.assigned, owned):
            return None
    comparison = "greater" if received > known else "smaller"
    return Rejected(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {comparison} member epoch ({received}) than the one known by the "
        f"group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )
