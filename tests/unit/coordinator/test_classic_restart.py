"""What of a classic group survives kill -9 and failed writes."""

from collections.abc import Iterator

import pytest
from group_world import GROUP, World

from moldau.common.protocol.errors import ErrorCode


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_a_stable_group_goes_on_after_kill_9(world: World) -> None:
    (a, b, c), generation = world.form(3)
    world.commit(7, member_id=b, generation=generation)
    world.restart()
    for member in (a, b, c):
        assert world.heartbeat(member, generation) == ErrorCode.NONE
        assert world.sync(member, generation).response.assignment == member.encode()
    assert world.offsets() == {("beer", 0): 7}
    assert world.commit(8, member_id=b, generation=generation).response is not None
    assert world.offsets() == {("beer", 0): 8}


def test_sessions_begin_anew_after_a_restart(world: World) -> None:
    (a,), generation = world.form(1, session_ms=10_000)
    world.advance(9000)
    world.restart()
    world.advance(9000)
    assert world.heartbeat(a, generation) == ErrorCode.NONE
    world.advance(10_000)
    assert world.heartbeat(a, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.shard.groups[GROUP].state_name() == "Empty"


def test_a_rebalance_that_a_restart_interrupts_begins_again(world: World) -> None:
    (a,), generation = world.form(1)
    b, second = world.enter()
    assert second.response is None
    world.restart()
    assert world.heartbeat(a, generation) == ErrorCode.NONE, "the last agreed generation is in force again"
    assert world.join(b).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_asked_only_for_an_id_exists_after_a_restart(world: World) -> None:
    member = world.join().response.member_id
    world.restart()
    assert GROUP in world.shard.groups
    assert world.join(member).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_keeps_its_generation(world: World) -> None:
    (a,), generation = world.form(1)
    world.leave(a)
    world.restart()
    group = world.shard.classic.get(GROUP)
    assert group is not None
    assert (group.state_name(), group.generation) == ("Empty", generation + 1)
    assert world.form(1)[1] == generation + 2


def test_an_assignment_is_told_only_when_it_is_written(world: World) -> None:
    (a, first), (b, _) = world.enter(), world.enter()
    world.gather()
    waiting = world.sync(b, 1)
    world.log.hold = True
    leader = world.sync(a, 1, {b: b"x"})
    assert waiting.response is leader.response is None
    world.log.finish()
    assert waiting.response.assignment == b"x"
    assert leader.error == ErrorCode.NONE
    assert first.response.generation_id == 1


def test_a_failed_assignment_sends_all_back_to_join(world: World) -> None:
    (a, _), (b, _) = world.enter(), world.enter()
    world.gather()
    waiting = world.sync(b, 1)
    world.log.fail = ErrorCode.NOT_ENOUGH_REPLICAS
    leader = world.sync(a, 1, {b: b"x"})
    assert waiting.error == leader.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.fail = 0
    assert world.heartbeat(a, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = [world.join(a), world.join(b)]
    assert [call.response.generation_id for call in again] == [2, 2]
    world.sync(a, 2, {a: b"y", b: b"x"})
    assert world.sync(b, 2).response.assignment == b"x"


def test_an_answer_in_doubt_reloads_what_the_log_holds(world: World) -> None:
    (a,), generation = world.form(1)
    world.log.hold = True
    commit = world.commit(5, member_id=a, generation=generation)
    world.log.finish(ErrorCode.REQUEST_TIMED_OUT, lands=True)
    assert world.committed(commit) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.hold = False
    assert world.offsets() == {("beer", 0): 5}
    assert world.heartbeat(a, generation) == ErrorCode.NONE


def test_a_group_whose_creation_fails_answers_all_who_wait_in_it(world: World) -> None:
    world.log.hold = True
    first, second = world.join(version=3), world.join(instance="i")
    world.gather()
    assert first.response is second.response is None
    world.log.finish(ErrorCode.KAFKA_STORAGE_ERROR)
    assert first.response is not None
    assert second.response is not None
    assert GROUP not in world.shard.groups


def test_a_simple_group_whose_creation_fails_answers_all_who_wait_in_it(world: World) -> None:
    world.log.hold = True
    commit, joined = world.commit(1), world.join(version=3)
    world.log.finish(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.committed(commit) == ErrorCode.NOT_COORDINATOR
    assert joined.error == ErrorCode.NOT_COORDINATOR
    assert GROUP not in world.shard.groups


def test_losing_the_partition_sends_everybody_away(world: World) -> None:
    (a, b), generation = world.form(2)
    parked = world.join(a, protocols=[("range", b"new")])
    world.log.hold = True
    commit = world.commit(1, member_id=b, generation=generation)
    world.coordinator.resigned(0)
    assert parked.error == world.committed(commit) == ErrorCode.NOT_COORDINATOR
    assert world.heartbeat(a, generation) == ErrorCode.NOT_COORDINATOR
    world.log.finish()
    assert world.coordinator.runtime.state(0) is None


def test_groups_larger_than_allowed_are_rebalanced_after_loading(world: World) -> None:
    members, generation = world.form(3)
    world.settings = world.settings.__class__(group_max_size=2, group_min_session_timeout_ms=1000)
    world.restart()
    assert world.heartbeat(members[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS
    calls = [world.join(member) for member in members]
    assert calls[2].error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [call.response.generation_id for call in calls[:2]] == [generation + 1] * 2


def test_a_generation_that_stands_in_memory_is_told_although_somebody_elses_write_fails(world: World) -> None:
    joined = world.join(version=3)
    world.log.hold = True
    commit = world.commit(1, group="other")
    world.gather()
    assert joined.response is None, "the answer waits behind the commit"
    world.log.finish(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.committed(commit) == ErrorCode.NOT_COORDINATOR
    assert joined.response.generation_id == 1
