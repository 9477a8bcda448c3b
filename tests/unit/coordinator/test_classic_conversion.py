"""An empty group changes its protocol as it is; test_mixed_groups.py has those in use."""

from collections.abc import Iterator
from typing import Any

import pytest
from group_world import GROUP, World

from moldau.broker.coordinator.group.group import GroupKind
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def beat(world: World, epoch: int, member_id: str = "member-of-the-new-kind") -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["beer"],
        topic_partitions=[],
    )
    return world.call("consumer_group_heartbeat", request, 1).response


def kind(world: World) -> GroupKind:
    return world.shard.groups[GROUP].kind


def test_an_empty_classic_group_becomes_a_consumer_group_with_its_offsets(world: World) -> None:
    (a,), generation = world.form(1)
    world.commit(5, member_id=a, generation=generation)
    world.leave(a)
    assert beat(world, 0).error_code == ErrorCode.NONE
    assert kind(world) is GroupKind.CONSUMER
    assert world.offsets() == {("beer", 0): 5}
    world.restart()
    assert kind(world) is GroupKind.CONSUMER
    assert world.offsets() == {("beer", 0): 5}


def test_an_empty_consumer_group_becomes_a_classic_group_with_its_offsets(world: World) -> None:
    joined = beat(world, 0)
    call = world.commit(6, member_id=joined.member_id, generation=joined.member_epoch, version=9)
    assert world.committed(call) == ErrorCode.NONE
    assert beat(world, -1).error_code == ErrorCode.NONE
    world.form(2)
    assert kind(world) is GroupKind.CLASSIC
    assert world.offsets() == {("beer", 0): 6}
    world.restart()
    assert kind(world) is GroupKind.CLASSIC
    assert world.shard.groups[GROUP].state_name() == "Stable"
    assert world.offsets() == {("beer", 0): 6}


def test_a_failed_conversion_leaves_what_was(world: World) -> None:
    beat(world, 0)
    beat(world, -1)
    world.log.fail = ErrorCode.KAFKA_STORAGE_ERROR
    refused = world.join()
    assert refused.error == ErrorCode.NOT_COORDINATOR
    world.log.fail = 0
    assert kind(world) is GroupKind.CONSUMER
    assert beat(world, 0).error_code == ErrorCode.NONE


def test_stale_epochs_may_not_commit(world: World) -> None:
    joined = beat(world, 0)
    options: dict[str, Any] = {"member_id": joined.member_id, "generation": joined.member_epoch + 1}
    assert world.committed(world.commit(1, version=9, **options)) == ErrorCode.STALE_MEMBER_EPOCH
    assert world.committed(world.commit(1, version=8, **options)) == ErrorCode.UNSUPPORTED_VERSION
