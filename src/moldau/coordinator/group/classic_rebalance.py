"""The phases of a classic group's rebalance.

    prepare     who waits for an assignment is told to join again; the group waits for all its members
    complete    those who joined become the next generation; the leader gets the list and assigns
    assign      the leader's assignment is written and handed out

Each function changes what the group holds in memory, and puts into the caller's `Result` the answers and
records that follow. Deadlines: "initial" (an empty group waits for more members, KIP-134), "join" (members
too slow to join are dropped), "sync" (members too slow to fetch their assignment are dropped), "session" (a
member was silent too long).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.coordinator.group.classic_state import ClassicState
from moldau.coordinator.records import group_metadata_record
from moldau.coordinator.result import Result
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.join_group import JoinGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from moldau.coordinator.group.classic import ClassicGroup
    from moldau.coordinator.group.classic_member import ClassicMember

GROUP_DEADLINES = ("initial", "join", "sync")
"""The deadlines that a group has at most once; their member id is empty."""

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a first join may stay parked: its sender has no id yet to heartbeat with, so its silence proves
nothing."""


def suspend_deadlines(group: "ClassicGroup") -> Callable[[int], None]:
    """Cancel the group's own deadlines, because it is about to become another group; calling the result
    brings them back, and the sessions of members that left or fell silent in the other group, which they are
    in again."""
    deadlines = group.shard.deadlines
    keys = [(group.group_id, name, "") for name in GROUP_DEADLINES]
    sessions = [(group.group_id, "session", known_id) for known_id in (*group.members, *group.pending_joins)]
    taken = [(key, at_ms) for key in (*keys, *sessions) if (at_ms := deadlines.get(key)) is not None]
    for key in keys:
        deadlines.cancel(key)

    def resume(error_code: int) -> None:
        for key, at_ms in taken:
            if deadlines.get(key) is None:
                deadlines.set(key, at_ms)

    return resume


def rebalance_or_complete(group: "ClassicGroup", result: Result[Any], now_ms: int) -> None:
    """A member changed, came or went: begin a rebalance, or see whether the present one is complete."""
    if group.state is ClassicState.PREPARING_REBALANCE:
        maybe_complete_join(group, result, now_ms)
    else:
        prepare_rebalance(group, result, now_ms)


def prepare_rebalance(group: "ClassicGroup", result: Result[Any], now_ms: int) -> None:
    """Begin a rebalance: wait until all members have joined, or the slowest one's time is over."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        _refuse_syncs(group, result, ErrorCode.REBALANCE_IN_PROGRESS)
    deadlines = group.shard.deadlines
    deadlines.cancel((group.group_id, "sync", ""))
    group.pending_syncs.clear()
    if group.state is ClassicState.EMPTY:
        delay_ms = group.shard.settings().group_initial_rebalance_delay_ms
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        group.new_member_added = False
        group.transition(ClassicState.PREPARING_REBALANCE, now_ms)
        deadlines.set((group.group_id, "initial", ""), now_ms + delay_ms)
        return
    group.transition(ClassicState.PREPARING_REBALANCE, now_ms)
    if group.all_joined():
        complete_join(group, result, now_ms)
    else:
        deadlines.set((group.group_id, "join", ""), now_ms + group.rebalance_timeout_ms())


def maybe_complete_join(group: "ClassicGroup", result: Result[Any], now_ms: int) -> None:
    """Complete the join phase if all have joined; an initial rebalance waits for its delay all the same."""
    if (
        group.state is ClassicState.PREPARING_REBALANCE
        and group.previous_state is not ClassicState.EMPTY
        and group.all_joined()
    ):
        complete_join(group, result, now_ms)


def complete_join(group: "ClassicGroup", result: Result[Any], now_ms: int) -> None:
    """Begin the next generation with those who joined, and with static members, who may still be
    restarting."""
    deadlines = group.shard.deadlines
    deadlines.cancel((group.group_id, "join", ""))
    deadlines.cancel((group.group_id, "initial", ""))
    timeout_ms = group.rebalance_timeout_ms()
    for member in list(group.members.values()):
        if member.parked_join is None and member.instance_id is None:
            _tell(group, member, f"did not join within {timeout_ms} ms (rebalance timeout)")
            drop(group, member, result)
    if not group.elect_joined_leader() and group.members:
        # Only static members are left, and none has joined: wait on, until one does or their sessions end.
        deadlines.set((group.group_id, "join", ""), now_ms + group.rebalance_timeout_ms())
        return
    group.next_generation(now_ms)
    if group.state is ClassicState.EMPTY:
        result.records.append(group_metadata_record(group.group_id, group.to_value()))
        return
    for member in group.members.values():
        result.answers += group.take_join(member, group.join_response(member.member_id))
        member.is_new = False
        group.touch(member, now_ms)
        group.pending_syncs.add(member.member_id)
    deadlines.set((group.group_id, "sync", ""), now_ms + group.rebalance_timeout_ms())


def assign(group: "ClassicGroup", assignments: dict[str, bytes], result: Result[Any], now_ms: int) -> None:
    """The leader has spoken: the group is stable, and whoever waits gets its part once the record is written.

    If writing fails, the group returns to the join phase (unless it moved on meanwhile) and the waiting are
    sent back.
    """
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.transition(ClassicState.STABLE, now_ms)
    result.records.append(group_metadata_record(group.group_id, group.to_value()))
    waiting = []
    for member in group.members.values():
        answers = group.take_sync(member, sync_response(group, member))
        if answers:
            group.touch(member, now_ms)
            waiting += answers
    result.answers += waiting
    generation = group.generation

    def unassign(error_code: int) -> None:
        for parked, _ in waiting:
            parked.answer(SyncGroupResponse(error_code=error_code))
        if group.state is ClassicState.STABLE and group.generation == generation:
            for member in group.members.values():
                member.assignment = b""
            prepare_rebalance(group, Result(), now_ms)

    result.on_failure = unassign


def sync_response(group: "ClassicGroup", member: "ClassicMember") -> SyncGroupResponse:
    """A member's part of the assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def drop(group: "ClassicGroup", member: "ClassicMember", result: Result[Any]) -> None:
    """Remove a member; its parked calls learn that it is unknown, so that a living client joins again."""
    refusal = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    result.answers += group.take_join(member, refusal)
    result.answers += group.take_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
    group.shard.deadlines.cancel((group.group_id, "session", member.member_id))


def after_removal(group: "ClassicGroup", result: Result[Any], now_ms: int) -> None:
    """Members are gone: the rest shares their work anew."""
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        prepare_rebalance(group, result, now_ms)
    elif group.state is ClassicState.PREPARING_REBALANCE:
        maybe_complete_join(group, result, now_ms)


def on_deadline(group: "ClassicGroup", name: str, member_id: str, now_ms: int) -> Result[None]:
    """One of the group's deadlines has passed."""
    result: Result[None] = Result()
    if name == "session":
        _session_expired(group, member_id, result, now_ms)
    elif name == "initial" and group.state is ClassicState.PREPARING_REBALANCE:
        _initial_delay_over(group, result, now_ms)
    elif name == "join" and group.state is ClassicState.PREPARING_REBALANCE:
        complete_join(group, result, now_ms)
    elif name == "sync" and group.pending_syncs:
        timeout_ms = group.rebalance_timeout_ms()
        for pending_id in sorted(group.pending_syncs):
            member = group.members.get(pending_id)
            if member is not None:
                cause = f"did not ask for its assignment within {timeout_ms} ms (rebalance timeout)"
                _tell(group, member, cause)
                drop(group, member, result)
        after_removal(group, result, now_ms)
    return result


def _session_expired(group: "ClassicGroup", member_id: str, result: Result[Any], now_ms: int) -> None:
    member = group.members.get(member_id)
    if member is None:
        if member_id in group.pending_joins:
            group.remove(member_id)
            maybe_complete_join(group, result, now_ms)
    elif not member.keeps_session_by_waiting():
        if member.is_new:
            _tell(group, member, f"had waited in its first join for {NEW_MEMBER_JOIN_TIMEOUT_MS} ms")
        else:
            _tell(group, member, f"was silent for {member.session_timeout_ms} ms (session timeout)")
        drop(group, member, result)
        after_removal(group, result, now_ms)


def _tell(group: "ClassicGroup", member: "ClassicMember", cause: str) -> None:
    group.shard.removals.removed(group.group_id, member.member_id, member.client_host, cause)


def _initial_delay_over(group: "ClassicGroup", result: Result[Any], now_ms: int) -> None:
    """Wait again as long as members keep arriving, but no longer than the rebalance timeout in all."""
    if group.new_member_added and group.initial_delay_left_ms > 0:
        group.new_member_added = False
        full_delay_ms = group.shard.settings().group_initial_rebalance_delay_ms
        delay_ms = min(full_delay_ms, group.initial_delay_left_ms)
        group.initial_delay_left_ms = max(group.initial_delay_left_ms - full_delay_ms, 0)
        group.shard.deadlines.set((group.group_id, "initial", ""), now_ms + delay_ms)
    else:
        complete_join(group, result, now_ms)


def _refuse_syncs(group: "ClassicGroup", result: Result[Any], error_code: int) -> None:
    for member in group.members.values():
        member.assignment = b""
        result.answers += group.take_sync(member, SyncGroupResponse(error_code=error_code))
