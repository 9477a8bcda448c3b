"""The phases of a classic group's rebalance.

    prepare     members that wait for an assignment are told to rejoin; the group waits for all its members
    complete    those who joined become the next generation; the leader gets the list and assigns
    assign      the leader's assignment is written and handed out

Each function changes a draft of the group (draft.py), and nothing else. Deadlines:

    initial    an empty group waits for more members (KIP-134)
    join       members that do not join in time are removed
    sync       members that do not ask for their assignment in time are removed
    session    a member sent nothing for too long
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic.draft import Draft, Removal
from moldau.broker.coordinator.group.classic.member import ClassicMember
from moldau.broker.coordinator.group.classic.record import value_of
from moldau.broker.coordinator.group.classic.responses import join_response, sync_response
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.broker.coordinator.records import group_metadata_record
from moldau.broker.coordinator.result import ParkedAnswer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.join_group import JoinGroupResponse
from moldau.common.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    pass

GROUP_DEADLINES = ("initial", "join", "sync")
"""The deadlines that a group has at most once; their member id is empty."""

SCHEMA_REGISTRY = "sr"
"""The protocol type with which instances of a schema registry elect one of them. They have nothing to share
out, and who comes later changes nothing: the first need not wait for it."""

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a first join may stay parked: its sender has no id yet to send heartbeats with."""


def rebalance_or_complete(draft: Draft, now_ms: int) -> None:
    """A member changed, came or went: begin a rebalance, or see whether the present one is complete."""
    if draft.now.state is ClassicState.PREPARING_REBALANCE:
        maybe_complete_join(draft, now_ms)
    else:
        prepare_rebalance(draft, now_ms)


def prepare_rebalance(draft: Draft, now_ms: int) -> None:
    """Begin a rebalance: wait until all members have joined, or the slowest one's time is over."""
    now = draft.now
    if now.state is ClassicState.COMPLETING_REBALANCE:
        _refuse_syncs(draft, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.cancel_deadline("sync")
    now.pending_syncs = frozenset()
    if now.state is ClassicState.EMPTY:
        delay_ms = _initial_delay_ms(draft)
        now.initial_delay_left_ms = max(now.rebalance_timeout_ms() - delay_ms, 0)
        now.new_member_added = False
        now.enter(ClassicState.PREPARING_REBALANCE, now_ms)
        draft.set_deadline("initial", now_ms + delay_ms)
        return
    now.enter(ClassicState.PREPARING_REBALANCE, now_ms)
    if now.all_joined():
        complete_join(draft, now_ms)
    else:
        draft.set_deadline("join", now_ms + now.rebalance_timeout_ms())


def maybe_complete_join(draft: Draft, now_ms: int) -> None:
    """Complete the join phase if all have joined; an initial rebalance waits for its delay all the same."""
    now = draft.now
    if (
        now.state is ClassicState.PREPARING_REBALANCE
        and now.previous_state is not ClassicState.EMPTY
        and now.all_joined()
    ):
        complete_join(draft, now_ms)


def complete_join(draft: Draft, now_ms: int) -> None:
    """Begin the next generation with those who joined, and with static members, which may be restarting."""
    now, group = draft.now, draft.group
    draft.cancel_deadline("join")
    draft.cancel_deadline("initial")
    timeout_ms = now.rebalance_timeout_ms()
    for member in list(now.members.values()):
        if member.parked_join is None and member.instance_id is None:
            _expel(draft, member, f"did not join within {timeout_ms} ms (rebalance timeout)")
    if not now.elect_joined_leader() and now.members:
        # Only static members are left, and none has joined: wait until one does or their sessions end.
        draft.set_deadline("join", now_ms + now.rebalance_timeout_ms())
        return
    # The record may be one generation ahead (migration/downgrade.py).
    persisted = 0 if group.persisted is None else group.persisted.generation
    now.next_generation(max(now.generation, persisted) + 1, now_ms)
    if now.state is ClassicState.EMPTY:
        draft.records.append(group_metadata_record(group.group_id, value_of(now)))
        return
    for member in list(now.members.values()):
        if member.parked_join is not None:
            response = join_response(now, member.member_id)
            draft.answers.append(ParkedAnswer(member.parked_join, response))
        now.put(member._replace(parked_join=None, is_new=False))
        draft.touch(member, now_ms)
    now.pending_syncs = frozenset(now.members)
    draft.set_deadline("sync", now_ms + now.rebalance_timeout_ms())


def assign(draft: Draft, assignments: dict[str, bytes], now_ms: int) -> Callable[[int], None]:
    """The leader has sent the assignment: the group is stable, and members that wait for their part get it
    once the record is written.

    Returns what to do if writing fails: the group goes back to the join phase, unless it moved on meanwhile,
    and those who wait are refused.
    """
    now, group = draft.now, draft.group
    for member in list(now.members.values()):
        now.put(member._replace(assignment=assignments.get(member.member_id, b"")))
    now.enter(ClassicState.STABLE, now_ms)
    draft.records.append(group_metadata_record(group.group_id, value_of(now)))
    waiting = [member.parked_sync for member in now.members.values() if member.parked_sync is not None]
    for member in list(now.members.values()):
        if member.parked_sync is not None:
            draft.answer_sync(member, sync_response(now, member))
            draft.touch(member, now_ms)
    generation = now.generation

    def unassign(error_code: int) -> None:
        for parked in waiting:
            parked.answer(SyncGroupResponse(error_code=error_code))
        if group.state is ClassicState.STABLE and group.generation == generation:
            repaired = Draft(group)
            for member in group.members.values():
                repaired.now.put(member._replace(assignment=b""))
            prepare_rebalance(repaired, now_ms)
            repaired.apply()

    return unassign


def remove(draft: Draft, member: ClassicMember) -> None:
    """Remove a member; its parked requests are answered UNKNOWN_MEMBER_ID, upon which a client rejoins."""
    member = draft.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    draft.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    draft.now.remove(member.member_id)
    draft.cancel_deadline("session", member.member_id)


def after_removal(draft: Draft, now_ms: int) -> None:
    """Members are gone: their partitions go to the others."""
    if draft.now.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        prepare_rebalance(draft, now_ms)
    elif draft.now.state is ClassicState.PREPARING_REBALANCE:
        maybe_complete_join(draft, now_ms)


# Deadlines.


def on_deadline(draft: Draft, name: str, member_id: str, now_ms: int) -> None:
    """One of the group's deadlines has passed."""
    now = draft.now
    preparing = now.state is ClassicState.PREPARING_REBALANCE
    if name == "session":
        _session_expired(draft, member_id, now_ms)
    elif name == "initial" and preparing:
        _initial_delay_over(draft, now_ms)
    elif name == "join" and preparing:
        complete_join(draft, now_ms)
    elif name == "sync" and now.pending_syncs:
        timeout_ms = now.rebalance_timeout_ms()
        for pending_id in sorted(now.pending_syncs):
            member = now.members.get(pending_id)
            if member is not None:
                cause = f"did not ask for its assignment within {timeout_ms} ms (rebalance timeout)"
                _expel(draft, member, cause)
        after_removal(draft, now_ms)


def suspend_deadlines(draft: Draft) -> Callable[[int], None]:
    """Cancel the group's own deadlines, because it is about to become a consumer group. Calling the result
    brings them back if it does not, and the sessions of members that left or expired as its members."""
    group, deadlines = draft.group, draft.group.parts.deadlines
    keys = [(group.group_id, name, "") for name in GROUP_DEADLINES]
    known_ids = (*group.members, *group.membership.pending_joins)
    sessions = [(group.group_id, "session", known_id) for known_id in known_ids]
    taken = [(key, at_ms) for key in (*keys, *sessions) if (at_ms := deadlines.get(key)) is not None]
    for name in GROUP_DEADLINES:
        draft.cancel_deadline(name)

    def resume(error_code: int) -> None:
        for key, at_ms in taken:
            if deadlines.get(key) is None:
                deadlines.set(key, at_ms)

    return resume


def _session_expired(draft: Draft, member_id: str, now_ms: int) -> None:
    member = draft.now.members.get(member_id)
    if member is None:
        if member_id in draft.now.pending_joins:
            draft.now.remove(member_id)
            maybe_complete_join(draft, now_ms)
    elif not member.keeps_session_by_waiting():
        if member.is_new:
            cause = f"had waited in its first join for {NEW_MEMBER_JOIN_TIMEOUT_MS} ms"
        else:
            cause = f"was silent for {member.session_timeout_ms} ms (session timeout)"
        _expel(draft, member, cause)
        after_removal(draft, now_ms)


def _initial_delay_over(draft: Draft, now_ms: int) -> None:
    """Wait again as long as members keep arriving, but no longer than the rebalance timeout in all."""
    now = draft.now
    if now.new_member_added and now.initial_delay_left_ms > 0:
        now.new_member_added = False
        full_delay_ms = _initial_delay_ms(draft)
        delay_ms = min(full_delay_ms, now.initial_delay_left_ms)
        now.initial_delay_left_ms = max(now.initial_delay_left_ms - full_delay_ms, 0)
        draft.set_deadline("initial", now_ms + delay_ms)
    else:
        complete_join(draft, now_ms)


def _initial_delay_ms(draft: Draft) -> int:
    """How long a group that was empty waits for further members, so that partitions are not moved twice."""
    if draft.now.protocol_type == SCHEMA_REGISTRY:
        return 0
    return draft.group.parts.settings().group_initial_rebalance_delay_ms


def _expel(draft: Draft, member: ClassicMember, cause: str) -> None:
    """Remove a member that did not ask to leave; the log tells why."""
    draft.removals.append(Removal(member.member_id, member.client_host, cause))
    remove(draft, member)


def _refuse_syncs(draft: Draft, error_code: int) -> None:
    for member in list(draft.now.members.values()):
        if member.assignment:
            member = member._replace(assignment=b"")
            draft.now.put(member)
        draft.answer_sync(member, SyncGroupResponse(error_code=error_code))
