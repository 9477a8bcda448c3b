"""Classic members of a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, while an application
moves from one protocol to the other (KIP-848).

    JoinGroup     the member takes its next step, as with a heartbeat of the consumer protocol; it is answered
                  at once, does not wait for others, and never leads
    SyncGroup     gets what the member has, in the bytes that its own leader would have sent
    Heartbeat     REBALANCE_IN_PROGRESS as long as the member has to join again: there is a newer target, it
                  has something to give up, or what it waits for has become free
    LeaveGroup    removes the member; the group may become a classic one by that (downgrade.py)

A generation is the member's epoch. Which partitions a member still has stands in its subscription (KIP-429);
eager members give up all before they join.

While all present members are classic (the policy forbids the downgrade, or the others are static and away),
there are no heartbeats in which a new target is computed; so theirs ask them to join when one is due. Kafka
leaves that out.

Not here: the steps (consumer/heartbeat.py), classic groups (classic/requests.py).
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.broker.coordinator.deadlines import DeadlineChanges, Key
from moldau.broker.coordinator.group.classic.member import protocols_of
from moldau.broker.coordinator.group.classic.responses import join_response
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup, all_topic_names
from moldau.broker.coordinator.group.consumer.heartbeat import (
    Decision,
    begin,
    pursue,
    settle_on_present_target,
)
from moldau.broker.coordinator.group.consumer.member import ClassicSide, ConsumerMember, MemberState
from moldau.broker.coordinator.group.consumer.reconcile import Owned
from moldau.broker.coordinator.group.consumer.requests import Admitted
from moldau.broker.coordinator.group.consumer.timers import MemberTimers
from moldau.broker.coordinator.group.group import Client, host_text
from moldau.broker.coordinator.group.migration import downgrade
from moldau.broker.coordinator.group.migration.embedded_protocol import (
    Malformed,
    Subscription,
    read_subscription,
    subscription_version,
    with_topic_ids,
    write_assignment,
)
from moldau.broker.coordinator.group.topics import metadata_hash
from moldau.broker.coordinator.result import Result
from moldau.common.core.ids import random_uuid, uuid_to_text
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.common.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.consumer.service import ConsumerGroups

MEMBER_ID_REQUIRED_SINCE = 4  # of JoinGroup (KIP-394)
REBALANCE_TIMEOUT_SINCE = 1  # of JoinGroup
SKIP_ASSIGNMENT_SINCE = 9  # of JoinGroup (KIP-814)
NO_MIGRATION = "disabled"

_log = logging.getLogger("moldau.coordinator.group.consumer_classic")


class ClassicMembers:
    """The classic members of the consumer groups of one shard."""

    def __init__(self, groups: "ConsumerGroups") -> None:
        self._groups = groups
        self._parts = groups.parts
        self._timers = groups.timers

    # JoinGroup.

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, client: Client, now_ms: int
    ) -> Result[JoinGroupResponse]:
        """The member joins the group, or takes its next step."""
        found = self._admit(group, request, client)
        if isinstance(found, Result):
            return found
        admitted, member_id, subscription = found
        instance_id = request.group_instance_id

        def update(member: ConsumerMember) -> ConsumerMember:
            return _updated(member, request, subscription, client)

        around = self._groups.around(group.group_id, client, now_ms)
        decision = begin(group, admitted, member_id, update, around)
        owned: Owned = [
            (topic_id, sorted(indices))
            for topic_id, indices in with_topic_ids(subscription.owned, self._parts.image()).items()
        ]
        holder = None if instance_id is None else group.static_member(instance_id)
        if holder is not None and holder.classic is None:
            result = self._downgrade(decision, holder, owned, client, now_ms)
            if result is not None:
                return result
        pursue(decision, owned)
        return self._joined(decision, admitted, now_ms)

    def _admit(
        self, group: ConsumerGroup, request: JoinGroupRequest, client: Client
    ) -> tuple[Admitted, str, Subscription] | Result[JoinGroupResponse]:
        """The joining member with its id and subscription, or the refusal."""
        if self._parts.settings().group_consumer_migration_policy.lower() == NO_MIGRATION:
            _log.info(
                "group %s: a classic member may not join the consumer group, group.consumer.migration.policy"
                " is 'disabled'",
                group.group_id,
            )
            return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id, instance_id = request.member_id, request.group_instance_id
        if self._groups.is_full(group, member_id, instance_id):
            return _refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        protocols = {protocol.name for protocol in request.protocols}
        if not group.supports_classic(request.protocol_type, protocols):
            return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        new_id = "" if member_id else uuid_to_text(random_uuid(self._parts.random))
        if new_id and instance_id is None and client.api_version >= MEMBER_ID_REQUIRED_SINCE:
            return _refuse(ErrorCode.MEMBER_ID_REQUIRED, new_id)  # as in Kafka, whatever it subscribes to
        try:
            subscription = read_subscription(bytes(request.protocols[0].metadata or b""))
        except Malformed as error:
            _log.warning(
                "group %s: the subscription of a joining member cannot be read, %s", group.group_id, error
            )
            return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not member_id:
            holder = None if instance_id is None else group.static_member(instance_id)
            admitted = Admitted(ConsumerMember(new_id)) if holder is None else Admitted(holder, holder)
            return admitted, new_id, subscription
        known = self._known(group, member_id, instance_id)
        if (
            known == ErrorCode.UNKNOWN_MEMBER_ID
            and instance_id is None
            and not any(indices for _, indices in subscription.owned)
        ):
            # It got its id just now, perhaps from the classic group that this one was. One that owns
            # partitions was removed without noticing, and others have them: it has to give them up first.
            # (Kafka lets it in.)
            known = ConsumerMember(member_id)
        return _refuse(known) if isinstance(known, int) else (Admitted(known), member_id, subscription)

    def _joined(self, decision: Decision, admitted: Admitted, now_ms: int) -> Result[JoinGroupResponse]:
        group, member = decision.group, decision.member
        replaced_ids = [] if admitted.replaces is None else [admitted.replaces.member_id]
        taken = self._timers.taken(group.group_id, dict.fromkeys([member.member_id, *replaced_ids]))
        changes = DeadlineChanges(self._parts.deadlines)
        timers = MemberTimers(changes)
        for replaced_id in replaced_ids:
            timers.cancel(group, replaced_id)
        timers.restart_session(group, member, decision.around.limits, now_ms)
        timers.joined(group, member, now_ms)
        if admitted.replaces is not None or member.member_id not in group.members:
            _log.info(
                "group %s: member %s joins using the classic protocol", group.group_id, member.member_id
            )
        return Result(
            _join_response(member),
            decision.records,
            on_failure=self._repair_after_failure(group.group_id, taken, now_ms),
            effects=[changes.apply, partial(self._groups.looked_at_topics, decision, now_ms)],
        )

    def _repair_after_failure(
        self, group_id: str, taken: dict[Key, int | None], now_ms: int
    ) -> Callable[[int], None]:
        repair_group = self._groups.repair_after_failure(group_id, now_ms)

        def repair(error_code: int) -> None:
            self._timers.put_back(taken)
            repair_group(error_code)

        return repair

    def _downgrade(
        self, decision: Decision, replaced: ConsumerMember, owned: Owned, client: Client, now_ms: int
    ) -> Result[JoinGroupResponse] | None:
        """A static member of the consumer protocol, the last one, comes back as a classic one: the group
        becomes classic. None if it may not.

        If the group stays stable, the member leads it and has nothing to assign (KIP-814): the leader
        watches the topics. An older client, which cannot be told to skip the assignment, must not lead.
        """
        group, settings = decision.group, self._parts.settings()
        replaced_id = replaced.member_id
        if not downgrade.may_downgrade(group, (replaced_id,), len(group.members), settings):
            return None
        rebalances = group.assignment_epoch < decision.group_epoch
        if not rebalances:
            settle_on_present_target(decision, owned)
            members = [member for member in group.members.values() if member is not replaced]
            epoch = group.assignment_epoch
            rebalances = not all(member.is_reconciled_to(epoch) for member in (*members, decision.member))
        classic = downgrade.classic_group(
            self._parts, group, (), now_ms, joining=decision.member, replaced_id=replaced_id
        )
        member_id = decision.member.member_id
        if rebalances or client.api_version < SKIP_ASSIGNMENT_SINCE:
            response = _join_response(decision.member)
            response.protocol_name = classic.protocol_name
        else:
            classic.membership.leader_id = member_id
            response = join_response(classic.membership, member_id, skip_assignment=True)
        result: Result[JoinGroupResponse] = Result(response)
        self._groups.become_classic(group, classic, result, now_ms, rebalances=rebalances)
        return result

    # SyncGroup, Heartbeat.

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int) -> Result[SyncGroupResponse]:
        """The member gets the partitions that it has."""
        member = self._current_member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        if isinstance(member, int):
            return Result(SyncGroupResponse(error_code=member))
        side = _side(member)
        revokes = member.state is MemberState.UNREVOKED_PARTITIONS
        if group.assignment_epoch > member.member_epoch and not revokes:
            # Checked before the names: a member that joined when the group was classic may know another
            # protocol name, and must not be refused for that. (Kafka refuses it.)
            changes = DeadlineChanges(self._parts.deadlines)
            MemberTimers(changes).must_rejoin(group, member, now_ms)
            rebalance = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            return Result(rebalance, effects=[changes.apply])
        types, names = (None, group.protocol_type), (None, side.protocol_name)
        if request.protocol_type not in types or request.protocol_name not in names:
            return Result(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        changes = DeadlineChanges(self._parts.deadlines)
        timers = MemberTimers(changes)
        timers.synced(group, member)
        timers.restart_session(group, member, self._groups.limits_of(group.group_id), now_ms)
        partitions = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
        version = subscription_version(side.subscription)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(partitions, self._parts.image(), version),
        )
        return Result(response, effects=[changes.apply])

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int
    ) -> Result[HeartbeatResponse]:
        """The member is alive; it may be told to rejoin."""
        member = self._current_member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        if isinstance(member, int):
            return Result(HeartbeatResponse(error_code=member))
        changes = DeadlineChanges(self._parts.deadlines)
        timers = MemberTimers(changes)
        timers.restart_session(group, member, self._groups.limits_of(group.group_id), now_ms)
        result = Result(HeartbeatResponse(), effects=[changes.apply])
        if self._must_rejoin(group, member, result):
            timers.must_rejoin(group, member, now_ms)
            result.response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return result

    def _must_rejoin(self, group: ConsumerGroup, member: ConsumerMember, result: Result[Any]) -> bool:
        if member.member_epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        if member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member):
            return True
        return self._target_is_outdated(group, result) and group.only_classic_speak()

    def _target_is_outdated(self, group: ConsumerGroup, result: Result[Any]) -> bool:
        if group.assignment_epoch < group.group_epoch:
            return True
        if not group.topics_changed:
            return False
        names = all_topic_names(group.members.values(), group.resolved_topics())
        changed = metadata_hash(names, self._parts.image()) != group.metadata_hash
        result.effects.append(partial(setattr, group, "topics_changed", changed))
        return changed

    def _current_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerMember | int:
        """The classic member with this id and its present generation, or the error."""
        member = self._known(group, member_id, instance_id)
        if isinstance(member, int):
            return member
        if member.classic is None:
            return int(ErrorCode.UNKNOWN_MEMBER_ID)
        return member if generation == member.member_epoch else int(ErrorCode.ILLEGAL_GENERATION)

    def _known(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember | int:
        """The member of this id, which is the one behind the instance id if there is one."""
        if instance_id is None:
            return group.members.get(member_id) or int(ErrorCode.UNKNOWN_MEMBER_ID)
        holder = group.static_member(instance_id)
        if holder is None:
            return int(ErrorCode.UNKNOWN_MEMBER_ID)
        return holder if holder.member_id == member_id else int(ErrorCode.FENCED_INSTANCE_ID)

    # LeaveGroup.

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int
    ) -> Result[LeaveGroupResponse]:
        """Members leave, or an administrator removes them (of either protocol, static ones also by their
        instance id alone); each has its own outcome."""
        leaving: dict[str, ConsumerMember] = {}
        rows = []
        for identity in request.members:
            member = self._leaver(group, identity)
            error_code = member if isinstance(member, int) else ErrorCode.NONE
            if not isinstance(member, int):
                leaving[member.member_id] = member
                reason = identity.reason or "no reason given"
                _log.info("group %s: member %s leaves (%s)", group.group_id, member.member_id, reason)
            rows.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=error_code,
                )
            )
        response = LeaveGroupResponse(members=rows)
        return self._groups.remove(group, leaving, response, now_ms) if leaving else Result(response)

    def _leaver(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember | int:
        instance_id = identity.group_instance_id
        if instance_id is not None and not identity.member_id:
            return group.static_member(instance_id) or int(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._known(group, identity.member_id, instance_id)


def _updated(
    member: ConsumerMember, request: JoinGroupRequest, subscription: Subscription, client: Client
) -> ConsumerMember:
    """The member with what its JoinGroup carries."""
    timeout_ms = request.rebalance_timeout_ms
    if client.api_version < REBALANCE_TIMEOUT_SINCE or timeout_ms < 0:
        timeout_ms = request.session_timeout_ms
    instance_id = request.group_instance_id
    return replace(
        member,
        instance_id=member.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=client.client_id,
        client_host=host_text(client),
        rebalance_timeout_ms=timeout_ms,
        topic_names=subscription.topics,
        topic_regex="",
        classic=ClassicSide(request.session_timeout_ms, protocols_of(request.protocols)),
    )


def _join_response(member: ConsumerMember) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=ConsumerGroup.protocol_type,
        protocol_name=_side(member).protocol_name,
        member_id=member.member_id,
    )


def _side(member: ConsumerMember) -> ClassicSide:
    side = member.classic
    if side is None:
        raise AssertionError(f"member {member.member_id!r} does not speak the classic protocol")
    return side


def _refuse(error_code: int, member_id: str = "") -> Result[JoinGroupResponse]:
    return Result(JoinGroupResponse(error_code=error_code, member_id=member_id))
