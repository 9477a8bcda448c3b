"""Static members (KIP-345): they keep their place over restarts, and their old selves are fenced."""

from collections.abc import Iterator

import pytest
from group_world import GROUP, World

from moldau.broker.coordinator.group.classic.record import value_of
from moldau.common.protocol.errors import ErrorCode


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def form(world: World) -> tuple[str, str, int]:
    """A stable group of two static members; gives their ids and the generation. The first leads."""
    first, second = world.join(instance="one"), world.join(instance="two")
    world.gather()
    a, b = first.response.member_id, second.response.member_id
    waiting = world.sync(b, 1, instance="two")
    world.sync(a, 1, {a: b"A", b: b"B"}, instance="one")
    assert waiting.response.assignment == b"B"
    return a, b, 1


def state(world: World) -> str:
    return world.shard.groups[GROUP].state_name()


def test_a_static_member_needs_no_id_first(world: World) -> None:
    joined = world.join(instance="one")
    world.gather()
    assert joined.response.member_id.startswith("one-")
    assert joined.response.members[0].group_instance_id == "one"


def test_a_restart_replaces_the_id_without_a_rebalance(world: World) -> None:
    a, b, generation = form(world)
    back = world.join(instance="two")
    assert back.response.generation_id == generation
    assert back.response.member_id not in (a, b)
    assert not back.response.skip_assignment
    assert state(world) == "Stable"
    assert world.heartbeat(b, generation, "two") == ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(b, generation, instance="two").error == ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(back.response.member_id, generation, instance="two").response.assignment == b"B"


def test_a_leader_that_restarts_is_told_to_leave_the_assignment_alone(world: World) -> None:
    _a, b, generation = form(world)
    back = world.join(instance="one", version=9)
    assert back.response.leader == back.response.member_id
    assert back.response.skip_assignment
    assert {row.member_id for row in back.response.members} == {back.response.member_id, b}
    old = world.join(instance="one", version=8)
    assert old.response.leader == back.response.member_id, "an old client must not think that it leads"
    assert old.response.members == []
    assert world.sync(old.response.member_id, generation, instance="one").response.assignment == b"A"


def test_a_restart_with_another_choice_of_protocols_rebalances(world: World) -> None:
    a, _, _ = form(world)
    back = world.join(instance="two", protocols=[("sticky", b""), ("range", b"")])
    assert state(world) == "Stable", "range is still what both support"
    world.leave(("", "one"))
    world.join(back.response.member_id, instance="two", protocols=[("sticky", b""), ("range", b"")])
    assert world.shard.classic.get(GROUP).protocol_name == "sticky"  # type: ignore[union-attr]
    again = world.join(instance="two", protocols=[("range", b"")])
    assert again.response is None or again.response.generation_id == 3
    assert a not in world.shard.classic.get(GROUP).members  # type: ignore[union-attr]


def test_a_restart_while_the_group_waits_for_its_leader_rebalances(world: World) -> None:
    first, second = world.join(instance="one"), world.join(instance="two")
    world.gather()
    waiting = world.sync(second.response.member_id, 1, instance="two")
    world.join(instance="two")
    assert waiting.error == ErrorCode.FENCED_INSTANCE_ID
    assert state(world) == "PreparingRebalance"
    assert world.sync(first.response.member_id, 1, instance="one").error == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_old_self_is_fenced_out_of_a_parked_join(world: World) -> None:
    first = world.join(instance="one")
    second = world.join(instance="one")
    assert first.error == ErrorCode.FENCED_INSTANCE_ID
    world.gather()
    assert second.response.generation_id == 1
    assert len(second.response.members) == 1


def test_an_instance_is_removed_by_its_name(world: World) -> None:
    _, b, _ = form(world)
    response = world.leave(("", "one"), ("", "nobody"), (b, "wrong"))
    assert [row.error_code for row in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert state(world) == "PreparingRebalance"
    assert world.leave((b, "one")).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave(("other", "two")).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_static_members_that_are_away_keep_their_place_in_a_rebalance(world: World) -> None:
    _, _, _ = form(world)
    world.leave()
    member, joined = world.enter(session_ms=60_000)
    for _ in range(3):
        world.heartbeat(member, 1)
    world.advance(9_999)
    assert len(world.shard.classic.get(GROUP).members) == 3  # type: ignore[union-attr]
    assert joined.response is None
    world.advance(1)
    assert [row.member_id for row in joined.response.members] == [member], "their sessions have ended"


def test_a_failed_write_gives_the_old_id_back(world: World) -> None:
    _, b, generation = form(world)
    world.log.fail = ErrorCode.KAFKA_STORAGE_ERROR
    refused = world.join(instance="two")
    assert refused.error == ErrorCode.NOT_COORDINATOR
    world.log.fail = 0
    assert world.heartbeat(b, generation, "two") == ErrorCode.NONE
    group = world.shard.classic.get(GROUP)
    assert group is not None
    assert value_of(group.membership) == group.persisted
