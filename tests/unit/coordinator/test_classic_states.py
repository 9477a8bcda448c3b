"""The table of a classic group's states: each of its rows happens, no other does, and the documentation has
the same rows."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from group_world import GROUP, World

from moldau.broker.coordinator.group.classic.draft import Draft
from moldau.broker.coordinator.group.classic.membership import Membership
from moldau.broker.coordinator.group.classic.states import FOLLOWERS, TRANSITIONS, ClassicState
from moldau.broker.coordinator.group.shard import GroupShard
from moldau.broker.coordinator.result import Result
from moldau.common.protocol.errors import ErrorCode

DOCUMENT = Path(__file__).parents[3] / "docs" / "classic-groups.md"
S = ClassicState


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ClassicState, ClassicState]]:
    """Every transition that is entered."""
    rows: list[tuple[ClassicState, ClassicState]] = []
    enter = Membership.enter

    def watched(membership: Membership, state: ClassicState, now_ms: int) -> None:
        source = membership.state
        enter(membership, state, now_ms)
        rows.append((source, state))

    monkeypatch.setattr(Membership, "enter", watched)
    return rows


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_every_row_of_the_table_happens(world: World, seen: list[tuple[ClassicState, ClassicState]]) -> None:
    (first,), _ = world.form(1)
    assert seen == [
        (S.EMPTY, S.PREPARING_REBALANCE),
        (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE),
        (S.COMPLETING_REBALANCE, S.STABLE),
    ]
    seen.clear()

    second, _ = world.enter()
    world.join(first)
    assert seen == [
        (S.STABLE, S.PREPARING_REBALANCE),
        (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE),
    ]
    seen.clear()

    world.leave(second)
    world.leave(first)
    assert seen == [
        (S.COMPLETING_REBALANCE, S.PREPARING_REBALANCE),
        (S.PREPARING_REBALANCE, S.EMPTY),
    ]
    seen.clear()

    for reach in ("empty", "preparing", "completing", "stable"):
        it = World()
        if reach == "empty":
            it.join()
        elif reach == "stable":
            it.form(1)
        else:
            it.enter()
            if reach == "completing":
                it.gather()
        seen.clear()
        it.coordinator.resigned(0)
        ((source, target),) = seen
        assert (source, target) in {(row.source, row.target) for row in TRANSITIONS}
        assert target is S.DEAD
        assert source.value.lower().startswith(reach)
        it.close()


def test_no_other_transition_is_possible() -> None:
    listed = {(row.source, row.target) for row in TRANSITIONS}
    assert len(listed) == len(TRANSITIONS)
    for source in ClassicState:
        for target in ClassicState:
            membership = Membership(0)
            membership.state = source
            if (source, target) in listed:
                membership.enter(target, 5)
                assert (membership.state, membership.previous_state) == (target, source)
                assert membership.state_timestamp_ms == 5
            else:
                with pytest.raises(AssertionError, match=f"from {source.value} to {target.value}"):
                    membership.enter(target, 5)
                assert (membership.state, membership.state_timestamp_ms) == (source, 0)
    assert FOLLOWERS[S.DEAD] == frozenset()


def test_the_document_has_the_same_rows() -> None:
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (.+?) \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows[1:] == [(row.source.value, row.target.value, row.cause) for row in TRANSITIONS]


def test_a_draft_that_is_thrown_away_changes_nothing(world: World) -> None:
    (leader, other), generation = world.form(2)
    group = world.shard.classic.get(GROUP)
    assert group is not None
    membership, deadlines = group.membership, dict(world.shard.deadlines._at_ms)
    draft = Draft(group)
    draft.now.remove(leader)
    draft.now.enter(S.PREPARING_REBALANCE, 1)
    draft.set_deadline("join", 1)
    draft.cancel_deadline("session", leader)
    assert draft.now.members.keys() == {other}
    assert group.membership is membership
    assert list(group.members) == [leader, other]
    assert world.shard.deadlines._at_ms == deadlines
    assert world.heartbeat(leader, generation) == ErrorCode.NONE

    draft.apply()
    assert list(group.members) == [other]
    assert group.state is S.PREPARING_REBALANCE


def test_the_watch_over_decisions_notices_one_that_changes_something(world: World) -> None:
    (leader,), _ = world.form(1)

    def removes(shard: GroupShard, now_ms: int) -> Result[str]:
        group = shard.classic.get(GROUP)
        assert group is not None
        group.membership.remove(leader)
        return Result("done")

    def moves(shard: GroupShard, now_ms: int) -> Result[str]:
        shard.deadlines.set((GROUP, "session", leader), 1)
        return Result("done")

    for operation, message in ((moves, "moved a deadline"), (removes, "changed a group")):
        with pytest.raises(AssertionError, match=message):
            world.coordinator.runtime.decide(0, operation, str)
