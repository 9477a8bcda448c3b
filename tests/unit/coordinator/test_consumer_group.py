"""A consumer group among the other parts: offsets, states, listing, deletion, conversion, description."""

from consumer_world import GROUP, FakeClient, World, state_of, topic_id

from moldau.broker.coordinator.group.group import GroupKind
from moldau.broker.coordinator.records import GroupRecord
from moldau.broker.metadata.image import ResourceType
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_describe import Member
from moldau.common.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.common.protocol.messages.coordinator_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def test_the_states_of_a_group() -> None:
    world = World(group_consumer_assignment_interval_ms=0)
    world.heartbeat("m1", 0)
    group = world.group()
    assert (group.kind, group.protocol_type, group.state_name()) == (GroupKind.CONSUMER, "consumer", "Stable")
    world.heartbeat("m0", 0)
    world.heartbeat("m0", -1)
    assert group.state_name() == "Assigning"
    world.heartbeat("m2", 0)
    assert group.state_name() == "Reconciling"
    world.heartbeat("m1", 2, owned={"a": [0, 1, 2]})
    world.heartbeat("m2", 5)
    assert group.state_name() == "Stable"
    assert group.member_count() == 2
    assert group.validate_delete() == ErrorCode.NON_EMPTY_GROUP
    world.heartbeat("m1", -1)
    world.heartbeat("m2", -1)
    assert group.state_name() == "Empty"
    assert group.is_empty()


def test_a_small_group_is_assigned_at_once_and_a_large_one_at_a_pace() -> None:
    world = World({"a": 6, "big": 2000}, group_consumer_assignment_interval_ms=1000)
    world.heartbeat("m1", 0)
    world.advance(1)
    assert world.heartbeat("m2", 0).member_epoch == 3
    world.heartbeat("l1", 0, ["big"], group_id="large")
    world.advance(100)
    assert world.heartbeat("l2", 0, ["big"], group_id="large").member_epoch == 2
    world.advance(150)
    assert world.heartbeat("l2", 2, group_id="large").member_epoch == 3


def test_the_pace_of_assignments_is_a_setting_of_the_group() -> None:
    world = World({"a": 6, "big": 2000}, group_consumer_assignment_interval_ms=1000)
    configs = {(ResourceType.GROUP, "large"): {"consumer.assignment.interval.ms": "0"}}
    world.image = world.image._replace(configs=configs)
    world.heartbeat("l1", 0, ["big"], group_id="large")
    world.advance(1)
    assert world.heartbeat("l2", 0, ["big"], group_id="large").member_epoch == 3


def test_members_commit_in_their_own_epoch() -> None:
    world = World()
    world.heartbeat("m1", 0)
    group = world.group()
    assert group.validate_offset_commit("m1", None, 2, 9) == ErrorCode.NONE
    assert group.validate_offset_commit("m1", None, 1, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_offset_commit("m1", None, 3, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_offset_commit("m2", None, 2, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate_offset_commit("m1", None, 2, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert group.validate_offset_commit("", None, -1, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate_offset_fetch("m1", 2) == ErrorCode.NONE
    assert group.validate_offset_fetch("m1", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_offset_fetch("m2", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate_offset_fetch(None, -1) == ErrorCode.NONE
    world.heartbeat("m1", -1)
    assert group.validate_offset_commit("", None, -1, 2) == ErrorCode.NONE


def test_a_late_commit_counts_for_partitions_that_never_left_the_member() -> None:
    world = World(group_consumer_assignment_interval_ms=0)
    world.heartbeat("m1", 0)
    world.heartbeat("m2", 0)
    world.heartbeat("m1", 2, owned={"a": [0, 1, 2]})
    world.heartbeat("m2", 3)
    world.heartbeat("m2", -1)
    world.heartbeat("m1", 3)
    group = world.group()
    assert group.members["m1"].member_epoch == 4
    assert group.may_commit_partition("m1", 2, topic_id("a"), 0)
    assert not group.may_commit_partition("m1", 3, topic_id("a"), 5), "m2 had it in between"
    assert group.may_commit_partition("m1", 4, topic_id("a"), 5)
    assert not group.may_commit_partition("m1", 5, topic_id("a"), 0)
    assert not group.may_commit_partition("m2", 3, topic_id("a"), 5)
    assert commit(world, "m1", 2, [0, 1]) == [ErrorCode.NONE, ErrorCode.NONE]
    assert commit(world, "m1", 2, [0, 5]) == [ErrorCode.STALE_MEMBER_EPOCH] * 2, "all or nothing"
    assert commit(world, "m1", 4, [0, 5]) == [ErrorCode.NONE, ErrorCode.NONE]


def commit(world: World, member_id: str, member_epoch: int, partitions: list[int]) -> list[int]:
    """Commit offset 1 in partitions of `a`; the outcomes."""
    rows = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in partitions]
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id_or_member_epoch=member_epoch,
        topics=[OffsetCommitRequestTopic(name="a", partitions=rows)],
    )
    response = world.apply(world.shard.offsets.commit(request, FakeClient(9), world.now_ms))
    return [row.error_code for topic in response.topics for row in topic.partitions]


def test_the_tombstones_of_a_group_leave_nothing() -> None:
    world = World()
    world.heartbeat("m1", 0, subscribed_topic_regex="a|b")
    world.heartbeat("s1", 0, instance_id="i1")
    for record in world.group().tombstones():
        world.shard.replay(record)
    assert state_of(world.shard) == {}


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    world = World()
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol=None, leader=None)
    world.shard.replay(GroupRecord(GroupMetadataKey(group=GROUP), value))
    commit = GroupRecord(OffsetCommitKey(group=GROUP, topic="a", partition=0), OffsetCommitValue(offset=5))
    world.shard.replay(commit)
    assert world.shard.groups[GROUP].kind is GroupKind.CLASSIC
    assert world.heartbeat("m1", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("m1", -1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert world.heartbeat("m1", 0).error_code == ErrorCode.NONE
    assert world.group().kind is GroupKind.CONSUMER
    assert world.shard.offsets.tombstones(GROUP)


def test_a_log_in_any_order_gives_the_group() -> None:
    world = World()
    world.heartbeat("m1", 0)
    world.heartbeat("m2", 0, ["b"])
    forward = state_of(world.loaded_again())
    world.log.reverse()
    latest = {}
    for key, value in world.log:
        latest.setdefault(key, value)
    world.log = list(latest.items())
    assert state_of(world.loaded_again()) == forward


def test_describing_a_group() -> None:
    world = World(group_consumer_assignment_interval_ms=0)
    world.heartbeat("m1", 0, ["a", "b"], rack_id="r1")
    world.heartbeat("m2", 0, instance_id="i2", server_assignor="range")
    described = world.shard.consumer.describe(GROUP, world.now_ms)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    assert described.assignor_name == "range"
    first, second = described.members
    assert (first.member_id, first.rack_id, first.member_epoch, first.member_type) == ("m1", "r1", 2, 1)
    assert first.subscribed_topic_names == ["a", "b"]
    assert rows(first, target=False) == {"a": [0, 1, 2, 3, 4, 5], "b": [0, 1, 2, 3]}
    assert (second.instance_id, second.client_id, second.client_host) == ("i2", "client", "/127.0.0.1")
    assert rows(second, target=False) == {}
    assert rows(second, target=True).keys() == {"a"}


def rows(member: Member, *, target: bool) -> dict[str, list[int]]:
    """A described assignment by topic name."""
    described = member.target_assignment if target else member.assignment
    return {row.topic_name: row.partitions for row in described.topic_partitions}


def test_describing_what_is_not_there() -> None:
    described = World().shard.consumer.describe("nope", 0)
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == "Group nope not found."


def test_a_heartbeat_without_news_writes_nothing() -> None:
    world = World()
    world.heartbeat("m1", 0)
    written = len(world.log)
    world.advance(5000)
    response = world.heartbeat("m1", 2)
    assert response.assignment is None
    assert len(world.log) == written


def test_only_what_changed_is_written() -> None:
    world = World(group_consumer_assignment_interval_ms=0)
    world.heartbeat("m1", 0)
    before = len(world.log)
    world.heartbeat("m1", 2, owned={"a": [0, 1, 2, 3, 4, 5]}, topics=["a"], rebalance_timeout_ms=30_000)
    assert len(world.log) == before, "the same subscription once more is no news"


def test_a_members_new_address_is_recorded_without_a_rebalance() -> None:
    world = World()
    world.heartbeat("m1", 0)
    request_client = FakeClient(client_host="10.0.0.9")
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m1", member_epoch=2)
    result = world.shard.consumer.heartbeat(request, request_client, world.now_ms)
    assert len(result.records) == 1
    assert not isinstance(result.records[0].key, ConsumerGroupCurrentMemberAssignmentKey)
    world.apply(result)
    assert world.group().members["m1"].client_host == "/10.0.0.9"
    assert world.group().group_epoch == 2


def test_a_member_that_takes_another_instance_id_gives_the_old_one_back() -> None:
    world = World()
    world.heartbeat("m1", 0, instance_id="i1")
    world.heartbeat("m1", 0, instance_id="i2")
    assert dict(world.group().static_members) == {"i2": "m1"}
    assert state_of(world.loaded_again()) == state_of(world.shard)
    assert world.heartbeat("m2", 0, instance_id="i1").error_code == ErrorCode.NONE
