"""Committing, fetching, deleting and expiring offsets."""

from collections.abc import Iterator

import pytest
from group_world import GROUP, World

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.common.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.common.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

DAY_MS = 24 * 60 * 60 * 1000
SUBSCRIBES_TO_BEER = b"\0\0\0\0\0\1\0\4beer\0\0\0\0"


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def delete_offsets(world: World, topic: str, *partitions: int) -> tuple[ErrorCode, list[int]]:
    rows = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    request = OffsetDeleteRequest(
        group_id=GROUP, topics=[OffsetDeleteRequestTopic(name=topic, partitions=rows)]
    )
    response = world.call("offset_delete", request, 0).response
    return ErrorCode(response.error_code), [
        row.error_code for found in response.topics for row in found.partitions
    ]


def delete_group(world: World, group: str = GROUP) -> ErrorCode:
    response = world.call("delete_groups", DeleteGroupsRequest(groups_names=[group]), 2).response
    return ErrorCode(response.results[0].error_code)


def test_a_consumer_without_a_group_commits_and_fetches(world: World) -> None:
    assert world.committed(world.commit(41)) == ErrorCode.NONE
    assert world.committed(world.commit(42, partition=1)) == ErrorCode.NONE
    assert world.offsets() == {("beer", 0): 41, ("beer", 1): 42}
    assert world.shard.groups[GROUP].state_name() == "Empty"


def test_a_commit_is_answered_when_it_is_safe_and_readers_wait_with_it(world: World) -> None:
    world.log.hold = True
    first, second, third = world.commit(1), world.commit(2), world.commit(3)
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    reader = world.call("offset_fetch", OffsetFetchRequest(groups=[group]), 8)
    assert first.response is None
    assert reader.response is None
    world.log.finish()
    assert first.response is not None
    assert second.response is None
    world.settle()
    assert world.log.batches[-2:] == [1, 2], "what came meanwhile goes together"
    world.log.finish()
    assert reader.response.groups[0].topics[0].partitions[0].committed_offset == 3
    assert world.committed(second) == world.committed(third) == ErrorCode.NONE


def test_a_failed_commit_leaves_the_old_offset(world: World) -> None:
    world.commit(1)
    world.log.hold = True
    calls = [world.commit(2), world.commit(3), world.commit(9, group="other")]
    world.log.finish(ErrorCode.KAFKA_STORAGE_ERROR)
    assert [world.committed(call) for call in calls] == [ErrorCode.NOT_COORDINATOR] * 3
    world.log.hold = False
    assert world.offsets() == {("beer", 0): 1}
    assert "other" not in world.shard.groups
    world.restart()
    assert world.offsets() == {("beer", 0): 1}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"topic": "milk"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"metadata": "x" * 4097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"generation": 3, "version": 8}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 3, "version": 9}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_commits_that_are_refused(world: World, options: dict[str, int], error: ErrorCode) -> None:
    assert world.committed(world.commit(1, **options)) == error  # type: ignore[arg-type]
    assert world.offsets() == {}
    assert not world.log.records.get(0)


def test_null_metadata_is_stored_as_empty(world: World) -> None:
    world.commit(1, metadata=None)
    assert next(iter(world.coordinator.committed_offsets())) == (GROUP, "beer", 0, 1, "")


def test_members_commit_in_their_generation_only(world: World) -> None:
    (a,), generation = world.form(1)
    assert world.committed(world.commit(1, member_id=a, generation=generation)) == ErrorCode.NONE
    assert (
        world.committed(world.commit(2, member_id=a, generation=generation - 1))
        == ErrorCode.ILLEGAL_GENERATION
    )
    assert (
        world.committed(world.commit(2, member_id="x", generation=generation)) == ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert world.committed(world.commit(2)) == ErrorCode.UNKNOWN_MEMBER_ID, "the group is in use"
    world.enter()
    assert world.committed(world.commit(3, member_id=a, generation=generation)) == ErrorCode.NONE
    world.join(a)
    refused = world.commit(4, member_id=a, generation=generation + 1)
    assert world.committed(refused) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.offsets() == {("beer", 0): 3}


def test_topic_ids_stand_for_names_from_version_10(world: World) -> None:
    rows = [OffsetCommitRequestPartition(partition_index=2, committed_offset=5)]
    topics = [
        OffsetCommitRequestTopic(topic_id=bytes([1] * 16), partitions=rows),
        OffsetCommitRequestTopic(topic_id=bytes([7] * 16), partitions=rows),
    ]
    response = world.call("offset_commit", OffsetCommitRequest(group_id=GROUP, topics=topics), 10).response
    assert [(topic.topic_id[0], topic.partitions[0].error_code) for topic in response.topics] == [
        (1, ErrorCode.NONE),
        (7, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert world.offsets() == {("beer", 2): 5}
    wanted = [
        OffsetFetchRequestTopics(topic_id=bytes([1] * 16), partition_indexes=[2, 0]),
        OffsetFetchRequestTopics(topic_id=bytes([7] * 16), partition_indexes=[0]),
    ]
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=wanted)
    (found,) = world.call("offset_fetch", OffsetFetchRequest(groups=[group]), 10).response.groups
    assert [row.committed_offset for row in found.topics[0].partitions] == [5, -1]
    assert found.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_fetching_for_several_groups_and_for_nobody(world: World) -> None:
    world.commit(1)
    topics = [OffsetFetchRequestTopics(name="wine", partition_indexes=[0])]
    groups = [
        OffsetFetchRequestGroup(group_id=GROUP, topics=None),
        OffsetFetchRequestGroup(group_id="ghosts", topics=topics),
    ]
    response = world.call("offset_fetch", OffsetFetchRequest(groups=groups), 8).response
    assert [group.error_code for group in response.groups] == [0, 0]
    assert response.groups[1].topics[0].partitions[0].committed_offset == -1


def test_offsets_are_deleted_unless_the_group_consumes_them(world: World) -> None:
    (a,), generation = world.form(1, protocols=[("range", SUBSCRIBES_TO_BEER)])
    world.commit(1, member_id=a, generation=generation)
    world.commit(2, topic="wine", member_id=a, generation=generation)
    assert delete_offsets(world, "beer", 0) == (ErrorCode.NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    assert delete_offsets(world, "milk", 0) == (ErrorCode.NONE, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert delete_offsets(world, "wine", 0, 1) == (ErrorCode.NONE, [0, 0])
    assert world.offsets() == {("beer", 0): 1}
    world.leave(a)
    assert delete_offsets(world, "beer", 0) == (ErrorCode.NONE, [0])
    assert world.offsets() == {}


def test_offsets_of_other_protocols_are_deleted_only_when_the_group_is_empty(world: World) -> None:
    assert delete_offsets(world, "beer", 0) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    (a,), _ = world.form(1, protocol_type="connect")
    assert delete_offsets(world, "beer", 0) == (ErrorCode.NON_EMPTY_GROUP, [])
    world.leave(a)
    assert delete_offsets(world, "beer", 0) == (ErrorCode.NONE, [0])


def test_deleting_a_group_takes_its_offsets_with_it(world: World) -> None:
    (a,), generation = world.form(1)
    world.commit(1, member_id=a, generation=generation)
    assert delete_group(world) == ErrorCode.NON_EMPTY_GROUP
    world.leave(a)
    assert delete_group(world) == ErrorCode.NONE
    assert delete_group(world) == ErrorCode.GROUP_ID_NOT_FOUND
    assert world.offsets() == {}
    world.restart()
    assert not world.shard.groups
    assert not world.shard.offsets.by_group


def test_a_deleted_topic_takes_its_offsets_with_it(world: World) -> None:
    world.commit(1)
    world.commit(2, topic="wine")
    world.delete_topic("beer")
    assert world.offsets() == {("wine", 0): 2}
    world.restart()
    assert world.offsets() == {("wine", 0): 2}


def test_a_new_topic_of_the_same_name_inherits_nothing(world: World) -> None:
    world.commit(1)
    world.recreate_topic("beer", bytes([3] * 16))
    assert world.offsets() == {}
    topics = [OffsetFetchRequestTopics(name="beer", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
    found = world.call("offset_fetch", OffsetFetchRequest(groups=groups), 8).response
    assert found.groups[0].topics[0].partitions[0].committed_offset == -1
    world.commit(2)
    world.restart()
    assert world.offsets() == {("beer", 0): 2}


class TestExpiry:
    """KIP-211, with the default of seven days."""

    def test_a_group_without_members_and_offsets_goes(self, world: World) -> None:
        (a,), _ = world.form(1)
        world.leave(a)
        world.advance(600_000)
        assert not world.shard.groups
        world.restart()
        assert not world.shard.groups

    def test_an_empty_groups_offsets_count_from_when_it_became_empty(self, world: World) -> None:
        (a,), generation = world.form(1, session_ms=1_800_000)
        world.commit(1, member_id=a, generation=generation)
        for _ in range(8 * 72):
            world.advance(DAY_MS // 72)
            assert world.heartbeat(a, generation) == ErrorCode.NONE
        world.leave(a)
        world.advance(6 * DAY_MS)
        assert world.offsets() == {("beer", 0): 1}
        world.advance(DAY_MS + 600_000)
        assert world.offsets() == {}
        assert not world.shard.groups

    def test_offsets_alone_count_from_their_commit(self, world: World) -> None:
        world.commit(1)
        world.advance(4 * DAY_MS)
        world.commit(2, partition=1)
        world.advance(4 * DAY_MS)
        assert world.offsets() == {("beer", 1): 2}

    def test_what_a_group_consumes_never_expires(self, world: World) -> None:
        (a,), generation = world.form(1, session_ms=1_800_000, protocols=[("range", SUBSCRIBES_TO_BEER)])
        world.commit(1, member_id=a, generation=generation)
        world.commit(2, topic="wine", member_id=a, generation=generation)
        for _ in range(8 * 72):
            world.advance(DAY_MS // 72)
            world.heartbeat(a, generation)
        assert world.offsets() == {("beer", 0): 1}

    def test_a_commit_may_bring_its_own_retention(self, world: World) -> None:
        world.commit(1, version=4, retention_ms=DAY_MS)
        world.restart()
        world.advance(DAY_MS - 600_000)
        assert world.offsets() == {("beer", 0): 1}
        world.advance(1_200_000)
        assert world.offsets() == {}


def test_counts_for_the_monitor(world: World) -> None:
    world.form(2)
    world.commit(3, group="simple", metadata="note")
    assert dict(world.coordinator.group_counts()) == {("classic", "Stable"): 1, ("classic", "Empty"): 1}
    assert world.coordinator.member_count() == 2
    assert list(world.coordinator.committed_offsets()) == [("simple", "beer", 0, 3, "note")]
