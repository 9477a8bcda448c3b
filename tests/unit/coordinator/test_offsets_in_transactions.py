"""Offsets committed in transactions: pending, stable, settled by markers, deleted, expired, loaded again."""

from collections.abc import Iterator

import pytest
from group_world import GROUP, World
from kept import kept

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from moldau.common.protocol.messages.delete_groups import DeleteGroupsRequest
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
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
BEER = bytes([1] * 16)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def delete_group(world: World) -> ErrorCode:
    response = world.call("delete_groups", DeleteGroupsRequest(groups_names=[GROUP]), 2).response
    return ErrorCode(response.results[0].error_code)


def test_an_offset_counts_when_its_transaction_commits(world: World) -> None:
    world.commit(1)
    assert world.committed(world.commit_pending(5)) == ErrorCode.NONE
    assert world.offsets() == {("beer", 0): 1}
    assert world.stable() is UNSTABLE
    assert world.stable(partition=1) == -1
    assert world.end().response == 0
    assert world.offsets() == {("beer", 0): 5}
    assert world.stable() == 5


def test_an_offset_vanishes_when_its_transaction_aborts(world: World) -> None:
    world.commit(1)
    world.commit_pending(5)
    world.end(committed=False)
    assert (world.offsets(), world.stable()) == ({("beer", 0): 1}, 1)


def test_the_last_offset_of_a_transaction_counts_and_markers_may_come_twice(world: World) -> None:
    world.commit_pending(5)
    world.commit_pending(6)
    world.commit_pending(9, partition=1)
    world.end()
    assert world.end().response == 0
    assert world.end(committed=False, epoch=1).response == 0
    assert world.offsets() == {("beer", 0): 6, ("beer", 1): 9}
    assert len(world.log.markers) == 3, "each marker goes to the log, which knows what it ends"


def test_what_stands_last_in_the_log_wins_not_what_is_settled_last(world: World) -> None:
    world.commit_pending(10, 7)
    world.commit_pending(20, 8)
    world.end(8)
    assert world.offsets() == {("beer", 0): 20}
    assert world.stable() is UNSTABLE, "producer 7 has not said yet what becomes of its offset"
    world.end(7)
    assert (world.offsets(), world.stable()) == ({("beer", 0): 20}, 20)


def test_a_plain_commit_in_between_outlives_an_earlier_pending_one_only(world: World) -> None:
    world.commit_pending(10, 7)
    world.commit(15)
    world.commit_pending(20, 8)
    assert world.stable() is UNSTABLE
    world.end(7)
    assert world.offsets() == {("beer", 0): 15}
    world.end(8)
    assert world.offsets() == {("beer", 0): 20}


@pytest.mark.parametrize("committed", [True, False])
def test_a_restart_keeps_what_is_pending_and_what_has_become_of_it(world: World, committed: bool) -> None:
    world.commit_pending(10, 7)
    world.commit_pending(11, 7, partition=1)
    world.commit(15)
    world.commit_pending(30, 8)
    world.restart()
    assert world.stable() is UNSTABLE
    assert world.shard.offsets.pending.is_open(7, 0)
    world.end(7, committed=committed)
    assert world.offsets() == {("beer", 0): 15} | ({("beer", 1): 11} if committed else {})
    world.restart()
    assert world.offsets() == {("beer", 0): 15} | ({("beer", 1): 11} if committed else {})
    world.end(8, committed=committed)
    world.restart()
    assert world.stable() == (30 if committed else 15)


def test_unstable_partitions_by_name_by_id_and_among_all(world: World) -> None:
    world.commit(1)
    world.commit(2, partition=1)
    world.commit_pending(5)
    world.commit_pending(6, partition=2)

    def rows(version: int, topics: list[OffsetFetchRequestTopics] | None) -> list[tuple[int, int, int]]:
        groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
        request = OffsetFetchRequest(groups=groups, require_stable=True)
        (found,) = world.call("offset_fetch", request, version).response.groups
        return [
            (row.partition_index, row.committed_offset, row.error_code)
            for topic in found.topics
            for row in topic.partitions
        ]

    by_name = OffsetFetchRequestTopics(name="beer", partition_indexes=[0, 1, 2])
    by_id = OffsetFetchRequestTopics(topic_id=BEER, partition_indexes=[0, 1, 2])
    assert rows(9, [by_name]) == [(0, -1, UNSTABLE), (1, 2, 0), (2, -1, UNSTABLE)]
    assert rows(10, [by_id]) == [(0, -1, UNSTABLE), (1, 2, 0), (2, -1, UNSTABLE)]
    assert rows(9, None) == rows(10, None) == [(0, -1, UNSTABLE), (1, 2, 0)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"generation": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"partition": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "water"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"metadata": "x" * 5000}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"producer": -1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_what_is_refused_leaves_nothing(world: World, options: dict[str, int], error: ErrorCode) -> None:
    assert world.committed(world.commit_pending(5, **options)) == error  # type: ignore[arg-type]
    assert world.log.records == {}
    assert GROUP not in world.shard.groups


def test_members_of_a_classic_group_and_who_says_nothing_of_itself(world: World) -> None:
    members, generation = world.form(1)
    (member,) = members

    def error(**options: object) -> ErrorCode | None:
        return world.committed(world.commit_pending(5, **options))  # type: ignore[arg-type]

    assert error(member_id=member, generation=generation) == ErrorCode.NONE
    assert error() == ErrorCode.NONE, "clients from before KIP-447 name no member"
    assert error(member_id=member, generation=generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert error(member_id=member) == ErrorCode.ILLEGAL_GENERATION
    assert error(member_id="ghost", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(instance="i", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    world.advance(9_000)
    assert error(member_id=member, generation=generation) == ErrorCode.NONE
    world.advance(2_000)
    assert error(member_id=member, generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID, "it is no heartbeat"
    assert error(member_id="ghost") == ErrorCode.NONE, "the group is empty"


def test_a_static_member_that_was_replaced_is_fenced(world: World) -> None:
    first = world.join(instance="i")
    world.gather()
    old = first.response.member_id
    generation = first.response.generation_id
    world.sync(old, generation, {old: b""}, instance="i")
    new = world.join(instance="i")
    world.gather()
    assert new.response.member_id != old
    outcome = world.commit_pending(5, member_id=old, instance="i", generation=generation)
    assert world.committed(outcome) == ErrorCode.FENCED_INSTANCE_ID


def test_members_commit_while_a_rebalance_completes(world: World) -> None:
    member, _ = world.enter()
    world.gather()
    assert world.committed(world.commit(5, member_id=member, generation=1)) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.committed(world.commit_pending(5, member_id=member, generation=1)) == ErrorCode.NONE


def test_members_of_a_consumer_group_commit_in_their_epoch(world: World) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["beer"],
        topic_partitions=[],
    )
    joined = world.call("consumer_group_heartbeat", request, 1).response
    assert joined.error_code == ErrorCode.NONE
    epoch = joined.member_epoch

    def error(**options: object) -> ErrorCode | None:
        return world.committed(world.commit_pending(5, **options))  # type: ignore[arg-type]

    assert error(member_id="m", generation=epoch) == ErrorCode.NONE
    assert error() == ErrorCode.NONE
    assert error(member_id="m", generation=epoch + 1) == ErrorCode.ILLEGAL_GENERATION
    assert error(member_id="m", generation=0) == ErrorCode.ILLEGAL_GENERATION
    assert error(member_id="ghost", generation=epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_behind_commits_what_it_has_had_all_along(world: World) -> None:
    """KIP-1251, for transactions as well."""

    def beat(member_id: str, epoch: int) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["beer"],
            topic_partitions=[] if epoch == 0 else None,
        )
        return int(world.call("consumer_group_heartbeat", request, 1).response.member_epoch)

    epoch = beat("a", 0)
    beat("b", 0)
    beat("a", epoch)
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="a",
        member_epoch=epoch,
        topic_partitions=[TopicPartitions(topic_id=BEER, partitions=[0])],
    )
    later = world.call("consumer_group_heartbeat", request, 1).response.member_epoch
    assert later > epoch, "partitions were given up, and the member has moved on"
    group = world.shard.groups[GROUP]
    outcomes = {
        index: world.committed(world.commit_pending(5, member_id="a", generation=epoch, partition=index))
        for index in range(3)
    }
    held = {index: group.may_commit_partition("a", epoch, BEER, index) for index in range(3)}  # type: ignore[attr-defined]
    assert set(held.values()) == {True, False}
    wanted = {True: ErrorCode.NONE, False: ErrorCode.ILLEGAL_GENERATION}
    assert outcomes == {index: wanted[each] for index, each in held.items()}


def test_a_group_that_only_has_pending_offsets_exists(world: World) -> None:
    world.commit_pending(5)
    assert world.shard.groups[GROUP].state_name() == "Empty"
    world.advance(30 * DAY_MS)
    assert GROUP in world.shard.groups, "a transaction is open"
    world.end(committed=False)
    world.advance(DAY_MS)
    assert GROUP not in world.shard.groups


def test_what_is_pending_keeps_the_committed_offset_from_expiring(world: World) -> None:
    world.commit(1)
    world.commit(2, partition=1)
    world.commit_pending(5)
    world.advance(8 * DAY_MS)
    assert world.offsets() == {("beer", 0): 1}
    world.end()
    assert world.offsets() == {("beer", 0): 5}
    world.advance(DAY_MS)
    assert world.offsets() == {}, "the commit is as old as its record, not as its marker"


def test_deleting_a_group_takes_what_is_pending(world: World) -> None:
    world.commit(1)
    world.commit_pending(5)
    world.commit_pending(6, partition=1)
    assert delete_group(world) == ErrorCode.NONE
    assert GROUP not in world.shard.groups
    world.restart()
    world.commit_pending(7, partition=2)
    world.end()
    assert world.offsets() == {("beer", 2): 7}, "only what came after the deletion"
    world.restart()
    assert world.offsets() == {("beer", 2): 7}


def test_deleting_an_offset_takes_what_is_pending(world: World) -> None:
    world.commit_pending(5)
    world.commit_pending(6, 8)
    rows = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name="beer", partitions=rows)]
    response = world.call("offset_delete", OffsetDeleteRequest(group_id=GROUP, topics=topics), 0).response
    assert (response.error_code, response.topics[0].partitions[0].error_code) == (0, 0)
    assert world.stable() == -1
    world.end()
    world.restart()
    world.end(8)
    assert world.offsets() == {}


def test_a_deleted_topic_takes_what_is_pending(world: World) -> None:
    world.commit_pending(5)
    world.commit_pending(6, topic="wine")
    world.delete_topic("beer")
    world.end()
    assert world.offsets() == {("wine", 0): 6}


def test_a_failed_append_takes_back_what_was_pending_and_what_was_settled(world: World) -> None:
    world.commit(1)
    world.commit_pending(5)
    world.log.fail = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.committed(world.commit_pending(6)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.end().response == ErrorCode.NOT_LEADER_OR_FOLLOWER, "the marker is to be sent again"
    world.log.fail = 0
    assert (world.offsets(), world.stable()) == ({("beer", 0): 1}, UNSTABLE)
    assert world.end().response == 0
    assert world.offsets() == {("beer", 0): 5}


def test_a_marker_of_unknown_fate_may_have_landed(world: World) -> None:
    world.commit_pending(5)
    world.log.hold = True
    call = world.end()
    world.log.in_flight.pop(0).finish(ErrorCode.REQUEST_TIMED_OUT, lands=True)
    world.log.hold = False
    world.settle()
    assert call.response == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.offsets() == {("beer", 0): 5}
    assert world.end().response == 0
    assert world.offsets() == {("beer", 0): 5}


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_who_is_outdated_is_told_so_and_nobody_else_is(world: World, error: ErrorCode) -> None:
    world.commit(1)
    world.log.hold = True
    own = world.end(7)
    other = world.commit(2)
    world.log.in_flight.pop(0).finish(error)
    world.log.hold = False
    assert own.response == error
    assert world.committed(other) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.offsets() == {("beer", 0): 1}
    assert world.coordinator.runtime.is_active(0), "the log has nothing of it; there is nothing to load"


def test_a_marker_for_a_shard_that_is_elsewhere_is_sent_again(world: World) -> None:
    world.coordinator.resigned(0)
    assert world.end().response == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.end(partition=1).response == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_guard_is_broken_by_a_marker_and_by_giving_up_the_shard(world: World) -> None:
    coordinator, before = world.coordinator, kept(world.shard.transactional)

    def take(producer: int = 7) -> object:
        guard = coordinator.guard_commit(GROUP, producer)
        assert guard is not None
        return guard

    first, other = take(), take(8)
    world.end(7)
    assert first.broken  # type: ignore[attr-defined]
    assert not other.broken  # type: ignore[attr-defined]
    second = take()
    coordinator.release_guard(second)  # type: ignore[arg-type]
    coordinator.release_guard(first)  # type: ignore[arg-type]
    world.end(7)
    assert not second.broken  # type: ignore[attr-defined]
    shard = world.shard
    coordinator.resigned(0)
    assert other.broken  # type: ignore[attr-defined]
    assert coordinator.guard_commit(GROUP, 7) is None
    assert kept(shard.transactional) == before
