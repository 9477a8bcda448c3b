"""Share groups: members come, get partitions once these have state, and go."""

import random
from typing import Any

import pytest
from consumer_world import GROUP, FakeClient, image_of, topic_id
from share_world import ShareWorld, assigned

from moldau.broker.coordinator.group.assignors.simple import assign_simply
from moldau.broker.coordinator.group.share.states import SharePartitionStates, StateTopic
from moldau.broker.coordinator.result import Parked
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


def joined(world: ShareWorld, *members: str, topics: tuple[str, ...] = ("a",)) -> dict[str, int]:
    """The members with their epochs, once they have what they should."""
    epochs = {member: world.beat(member, 0, topics).member_epoch for member in members}
    world.confirm()
    return {member: world.beat(member, epoch).member_epoch for member, epoch in epochs.items()}


def test_a_member_gets_partitions_when_the_share_coordinator_has_confirmed_them() -> None:
    world = ShareWorld({"a": 3})
    first = world.beat("m", 0, ["a"])
    assert (first.error_code, first.member_epoch, assigned(first)) == (0, 1, {})
    assert [
        (group, epoch, {k: v.partitions for k, v in topics.items()}) for group, epoch, topics in world.asked
    ] == [(GROUP, 1, {topic_id("a"): {0, 1, 2}})]
    world.confirm()
    second = world.beat("m", 1)
    assert (second.member_epoch, assigned(second)) == (2, {"a": [0, 1, 2]})
    third = world.beat("m", 2)
    assert (third.member_epoch, third.assignment) == (2, None)


def test_more_members_than_partitions_have_them_in_common() -> None:
    world = ShareWorld({"a": 2})
    joined(world, "m1", "m2", "m3", "m4", "m5")
    world.now_ms += 60_000
    counts = {0: 0, 1: 0}
    for member in world.share_group.members.values():
        (index,) = member.assigned[topic_id("a")] if member.assigned else (0,)
        counts[index] += 1
    assert sorted(counts.values()) == [2, 3]
    assert world.share_group.state_name() == "Stable"


def test_partitions_that_are_added_are_initialized_too() -> None:
    world = ShareWorld({"a": 1})
    epoch = joined(world, "m")["m"]
    old, world.image = world.image, image_of({"a": 3}, version=2)
    world.apply(world.shard.metadata_changed(old, world.image, frozenset(), world.now_ms))
    epoch = world.beat("m", epoch).member_epoch
    assert [dict(topics) for _, _, topics in world.asked] == [
        {topic_id("a"): StateTopic("a", frozenset({1, 2}))}
    ]
    world.confirm()
    assert assigned(world.beat("m", epoch)) == {"a": [0, 1, 2]}


def test_a_topic_made_anew_begins_anew() -> None:
    world = ShareWorld({"a": 1})
    epoch = joined(world, "m")["m"]
    old, world.image = world.image, image_of({"a": 1}, version=2, incarnation=1)
    world.apply(world.shard.metadata_changed(old, world.image, frozenset({"a"}), world.now_ms))
    assert not world.share_group.states.known()
    epoch = world.beat("m", epoch).member_epoch
    assert [list(topics) for _, _, topics in world.asked] == [[topic_id("a", 1)]]
    world.confirm()
    world.beat("m", epoch)
    assert list(world.share_group.members["m"].assigned) == [topic_id("a", 1)]


def test_a_share_coordinator_that_does_not_answer_is_asked_again_after_a_while() -> None:
    world = ShareWorld({"a": 1})
    epoch = world.beat("m", 0, ["a"]).member_epoch
    world.asked.clear()
    world.now_ms += 20_000
    world.beat("m", epoch)
    assert not world.asked
    world.now_ms += 10_000
    world.beat("m", epoch)
    assert len(world.asked) == 1
    world.asked.clear()
    world.shard.share.not_confirmed(GROUP)
    world.beat("m", epoch)
    assert len(world.asked) == 1


def test_a_coordinator_that_comes_after_asks_again() -> None:
    world = ShareWorld({"a": 1})
    epoch = world.beat("m", 0, ["a"]).member_epoch
    world.asked.clear()
    world.reload()
    world.beat("m", epoch)
    assert len(world.asked) == 1
    world.confirm()
    assert assigned(world.beat("m", epoch)) == {"a": [0]}


def test_members_leave_and_time_out() -> None:
    world = ShareWorld({"a": 4})
    epochs = joined(world, "m1", "m2")
    left = world.beat("m1", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    world.now_ms += 2000
    assert assigned(world.beat("m2", epochs["m2"])) == {"a": [0, 1, 2, 3]}
    world.now_ms += 44_999
    assert not world.shard.deadlines.pop_due(world.now_ms - 2000)
    for key in world.shard.deadlines.pop_due(world.now_ms + 1):
        world.apply(world.shard.due(key, world.now_ms))
    assert world.share_group.state_name() == "Empty"
    assert world.beat("m2", epochs["m2"] + 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_is_refused() -> None:
    world = ShareWorld({"a": 1}, group_share_max_size=1)
    epoch = joined(world, "m")["m"]
    assert world.beat("n", 0, ["a"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beat("n", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat("n", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat("m", epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert world.beat("m", epoch - 1).error_code == 0
    assert world.beat("m", -2).error_code == ErrorCode.INVALID_REQUEST
    assert world.beat("", 0, ["a"]).error_code == ErrorCode.INVALID_REQUEST
    assert world.beat("m", 0, group_id="h").error_code == ErrorCode.INVALID_REQUEST
    assert world.beat("m", 1, group_id="h").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_name_belongs_to_one_kind_of_group() -> None:
    world = ShareWorld({"a": 1})
    world.heartbeat("c", 0, ["a"], group_id="consumer")
    assert world.beat("m", 0, ["a"], group_id="consumer").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    joined(world, "m")
    assert world.heartbeat("c", 0, ["a"]).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joining = world.shard.members.join(request, FakeClient(), Parked(), world.now_ms)
    assert joining.response is not None
    assert joining.response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.shard.share.describe("consumer").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_failed_append_leaves_nothing_behind() -> None:
    world = ShareWorld({"a": 2})
    world.fail_appends = True
    assert world.beat("m", 0, ["a"]) is None
    assert world.shard.share.get(GROUP) is None
    assert not world.asked
    world.fail_appends = False
    epochs = joined(world, "m")
    before = dict(world.share_group.members)
    world.fail_appends = True
    world.beat("n", 0, ["a"])
    world.fail_appends = False
    assert dict(world.share_group.members) == before
    assert world.beat("m", epochs["m"]).error_code == 0


def test_the_log_gives_the_group_back() -> None:
    world = ShareWorld({"a": 3, "b": 2})
    joined(world, "m1", "m2", topics=("a", "b"))
    world.beat("m1", -1)
    before = world.share_group
    world.reload()
    after = world.share_group
    for name in ("group_epoch", "metadata_hash", "assignment_epoch", "assigned_at_ms", "states"):
        assert getattr(after, name) == getattr(before, name), name
    assert dict(after.members) == dict(before.members)
    assert dict(after.targets) == dict(before.targets)


def test_only_an_empty_group_is_deleted_and_nothing_is_left() -> None:
    world = ShareWorld({"a": 1})
    joined(world, "m")
    assert world.apply(world.shard.delete_group(GROUP)).error_code == ErrorCode.NON_EMPTY_GROUP
    world.beat("m", -1)
    assert world.apply(world.shard.delete_group(GROUP)).error_code == 0
    world.reload()
    assert not world.shard.groups


def test_states_on_their_way() -> None:
    a, b = b"a" * 16, b"b" * 16
    states = SharePartitionStates().asking({a: StateTopic("a", frozenset({0, 1}))})
    assert states.confirmed({b: StateTopic("b", frozenset({0}))}) == states
    states = states.confirmed({a: StateTopic("a", frozenset({1, 7}))})
    assert (states.initializing[a].partitions, states.initialized[a].partitions) == ({0}, {1})
    states = states.leaving([a, b])
    assert (dict(states.initializing), dict(states.initialized)) == ({}, {})
    assert states.deleting[a].partitions == {0, 1}
    assert not states.left([a]).known()


@pytest.mark.parametrize("seed", range(30))
def test_the_simple_assignor_is_fair_complete_and_moves_little(seed: int) -> None:
    seeded = random.Random(seed)
    topics = {bytes([n]) * 16: frozenset(range(seeded.randint(1, 8))) for n in range(seeded.randint(1, 4))}
    members = {f"m{n}": frozenset(topics) for n in range(seeded.randint(1, 25))}
    got = assign_simply(members, topics, {})
    places = [(topic, index) for topic, indexes in topics.items() for index in indexes]
    sizes = [sum(map(len, rows.values())) for rows in got.values()]
    shared = [sum(index in rows.get(topic, ()) for rows in got.values()) for topic, index in places]
    assert max(sizes) - min(sizes) <= 1
    assert max(shared) - min(shared) <= 1
    assert min(shared) >= 1
    assert min(sizes) >= 1 or len(members) <= len(places)
    assert assign_simply(members, topics, got) == got
    fewer = {member: each for member, each in members.items() if member != "m0"}
    if fewer:
        after = assign_simply(fewer, topics, got)
        kept = sum(
            len(after[m].get(t, frozenset()) & got[m].get(t, frozenset())) for m in fewer for t in topics
        )
        assert kept >= sum(sum(map(len, got[m].values())) for m in fewer) - max(shared) - max(sizes)


class CountedTopics(dict[str, Any]):
    """Topics by name; counts how often somebody looks for one."""

    lookups = 0

    def get(self, *key: Any) -> Any:
        self.lookups += 1
        return super().get(*key)

    def __contains__(self, key: object) -> bool:
        self.lookups += 1
        return super().__contains__(key)


def test_topics_that_do_not_exist_are_not_looked_for_again_with_every_member() -> None:
    world = ShareWorld({"t": 1})
    world.image = world.image._replace(topics=CountedTopics(world.image.topics))
    for number in range(20):
        world.beat(f"m{number}", 0, ["t", *(f"none-{number}-{n}" for n in range(500))])
        world.confirm()
        world.now_ms += 5000
    world.image.topics.lookups = 0
    world.beat("last", 0, ["t"])
    world.beat("m3", -1)
    assert world.image.topics.lookups < 500
