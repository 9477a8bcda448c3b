"""Classic groups as transcripts: joining, syncing, leaving, and what happens to those who are late or
silent."""

from collections.abc import Iterator

import pytest
from group_world import GROUP, World

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def state(world: World) -> str:
    return world.shard.groups[GROUP].state_name()


def test_first_join_must_come_again_with_the_id_it_is_given(world: World) -> None:
    first = world.join()
    assert first.error == ErrorCode.MEMBER_ID_REQUIRED
    assert first.response.member_id.startswith("app-")
    assert state(world) == "Empty"
    again = world.join(first.response.member_id)
    world.gather()
    assert again.response.error_code == 0
    assert again.response.generation_id == 1
    assert again.response.leader == first.response.member_id
    assert [row.metadata for row in again.response.members] == [b"meta"]
    assert state(world) == "CompletingRebalance"


def test_old_clients_join_at_once(world: World) -> None:
    joined = world.join(version=3)
    world.gather()
    assert joined.response.generation_id == 1


def test_the_initial_delay_gathers_members_and_is_extended_while_they_come() -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    _, first = world.enter()
    world.advance(2000)
    _, second = world.enter()
    world.advance(1000)
    assert first.response is None
    world.advance(2999)
    assert first.response is None
    world.advance(1)
    assert first.response.generation_id == second.response.generation_id == 1
    assert len(first.response.members) == 2
    assert second.response.members == []
    world.close()


def test_instances_of_a_schema_registry_do_not_wait_for_others() -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    _, first = world.enter(protocol_type="sr", protocols=(("v0", b"{}"),))
    world.advance(1)
    assert first.response.generation_id == 1
    world.close()


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    _, first = world.enter(rebalance_ms=5000)
    for _ in range(4):
        world.advance(1000)
        world.enter(rebalance_ms=5000)
    assert first.response is None
    world.advance(1000)
    assert len(first.response.members) == 5
    world.close()


def test_assignments_reach_everybody_through_the_leader(world: World) -> None:
    members, generation = world.form(3)
    assert state(world) == "Stable"
    for member in members:
        call = world.sync(member, generation)
        assert call.response.assignment == member.encode()
        assert call.response.protocol_name == "range"
        assert world.heartbeat(member, generation) == ErrorCode.NONE


def test_a_member_that_is_forgotten_by_the_leader_gets_nothing(world: World) -> None:
    (a, first), (b, _) = world.enter(), world.enter()
    world.gather()
    generation = first.response.generation_id
    waiting = world.sync(b, generation)
    assert waiting.response is None
    world.sync(a, generation, {a: b"all"})
    assert waiting.response.assignment == b""
    assert waiting.error == ErrorCode.NONE


def test_a_newcomer_makes_all_join_again(world: World) -> None:
    (a,), generation = world.form(1)
    _b, second = world.enter()
    assert second.response is None
    assert state(world) == "PreparingRebalance"
    assert world.heartbeat(a, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.sync(a, generation).error == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = world.join(a)
    assert rejoined.response.generation_id == second.response.generation_id == generation + 1
    assert rejoined.response.leader == a


def test_members_too_slow_to_join_are_dropped(world: World) -> None:
    (a, b), _ = world.form(2, rebalance_ms=5000, session_ms=60_000)
    rejoined = world.join(b, rebalance_ms=5000, session_ms=60_000, protocols=[("range", b"new")])
    assert rejoined.response is None
    world.advance(5000)
    assert rejoined.response.leader == b
    assert world.heartbeat(a, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_too_slow_to_sync_are_dropped(world: World) -> None:
    (a, first), (b, _) = world.enter(rebalance_ms=5000), world.enter(rebalance_ms=5000)
    world.gather()
    generation = first.response.generation_id
    world.sync(a, generation, {})
    world.advance(4000)
    assert world.heartbeat(b, generation) == ErrorCode.NONE
    world.advance(1000)
    assert world.heartbeat(b, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(a, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_silence_ends_a_session(world: World) -> None:
    (a, b), generation = world.form(2, session_ms=10_000)
    for _ in range(3):
        world.advance(6000)
        world.heartbeat(a, generation)
    assert world.heartbeat(b, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(a, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life(world: World) -> None:
    (a,), generation = world.form(1, session_ms=10_000)
    world.advance(9000)
    assert world.committed(world.commit(5, member_id=a, generation=generation)) == ErrorCode.NONE
    world.advance(9000)
    assert world.heartbeat(a, generation) == ErrorCode.NONE


def test_waiting_for_others_keeps_the_session(world: World) -> None:
    (a, b), generation = world.form(2, session_ms=10_000, rebalance_ms=60_000)
    rejoined = world.join(a, session_ms=10_000, protocols=[("range", b"new")])
    for _ in range(5):
        world.advance(9000)
        assert world.heartbeat(b, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(20_000)
    assert rejoined.response.members[0].member_id == a


def test_an_id_that_is_never_used_is_forgotten(world: World) -> None:
    world.form(1)
    pending = world.join(session_ms=10_000).response.member_id
    world.advance(10_000)
    assert world.join(pending).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_one_to_leave_empties_the_group(world: World) -> None:
    (a, b), generation = world.form(2)
    assert [row.error_code for row in world.leave(a, "nobody").members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert state(world) == "PreparingRebalance"
    world.leave(b)
    assert state(world) == "Empty"
    assert world.shard.classic.get(GROUP).generation == generation + 1


def test_a_follower_that_rejoins_unchanged_gets_the_present_generation(world: World) -> None:
    (a, b), generation = world.form(2)
    assert world.join(b).response.generation_id == generation
    assert state(world) == "Stable"
    assert world.join(a).response is None, "the leader's join always means a rebalance"
    assert state(world) == "PreparingRebalance"


def test_a_rejoin_while_all_wait_for_the_leader_repeats_the_answer(world: World) -> None:
    (a, first), (b, _) = world.enter(), world.enter()
    world.gather()
    again = world.join(b)
    assert again.response.generation_id == first.response.generation_id
    changed = world.join(b, protocols=[("range", b"other")])
    assert changed.response is None
    assert world.sync(a, 1).error == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_joins_that_make_no_sense_are_refused(
    world: World, options: dict[str, str], error: ErrorCode
) -> None:
    assert world.join(**options).error == error  # type: ignore[arg-type]
    assert not world.shard.groups


def test_members_must_share_a_protocol(world: World) -> None:
    world.form(1, protocols=[("sticky", b"1"), ("range", b"2")])
    assert world.join(protocols=[("roundrobin", b"")]).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    _, second = world.enter(protocols=[("range", b"3"), ("other", b"4")])
    leader = world.shard.classic.get(GROUP).membership.leader_id
    world.join(leader, protocols=[("sticky", b"1"), ("range", b"2")])
    assert second.response.protocol_name == "range"


def test_the_protocol_is_chosen_by_vote(world: World) -> None:
    two = [("a", b""), ("b", b"")]
    for preference in (two, two[::-1], two[::-1]):
        _, call = world.enter(protocols=preference)
    world.gather()
    assert call.response.protocol_name == "b"


def test_a_sync_must_name_the_agreed_protocol_and_generation(world: World) -> None:
    (a,), generation = world.form(1)
    assert world.sync(a, generation, protocol_name="sticky").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(a, generation, protocol_type="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(a, generation + 1).error == ErrorCode.ILLEGAL_GENERATION
    assert world.sync("stranger", generation).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(a, generation - 1) == ErrorCode.ILLEGAL_GENERATION


def test_a_full_group_takes_nobody_in(world: World) -> None:
    world.settings = world.settings.__class__(
        group_max_size=2, group_initial_rebalance_delay_ms=10, group_min_session_timeout_ms=1000
    )
    (a, b), generation = world.form(2)
    assert world.join().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.heartbeat(a, generation) == ErrorCode.NONE
    assert world.join(b).error == ErrorCode.NONE


def test_leaving_an_unknown_group_is_an_error_of_each_member(world: World) -> None:
    request = LeaveGroupRequest(group_id="ghosts", members=[MemberIdentity(member_id="a")])
    response = world.call("leave_group", request, 5).response
    assert (response.error_code, response.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)
