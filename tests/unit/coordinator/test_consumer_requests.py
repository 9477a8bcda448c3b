"""What a heartbeat is refused for, with the code and the sentence that Kafka uses."""

from typing import Any

import pytest
from consumer_world import World

from moldau.common.protocol.errors import ErrorCode

INVALID = ErrorCode.INVALID_REQUEST

REFUSALS: list[tuple[dict[str, Any], int, str]] = [
    ({"member_id": ""}, INVALID, "MemberId can't be empty."),
    ({"member_id": "", "member_epoch": -1, "version": 0}, INVALID, "MemberId can't be empty."),
    ({"group_id": " "}, INVALID, "GroupId can't be empty."),
    ({"instance_id": ""}, INVALID, "InstanceId can't be empty."),
    ({"rack_id": " "}, INVALID, "RackId can't be empty."),
    ({"rebalance_timeout_ms": -1}, INVALID, "RebalanceTimeoutMs must be provided in first request."),
    ({"owned": {"a": [1]}}, INVALID, "TopicPartitions must be empty when (re-)joining."),
    (
        {"subscribed_topic_regex": None},
        INVALID,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ({"member_epoch": -2}, INVALID, "InstanceId can't be null."),
    ({"member_epoch": -3}, INVALID, "MemberEpoch is invalid."),
    (
        {"server_assignor": "nope"},
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor nope is not supported. Supported assignors: uniform, range.",
    ),
    ({"member_epoch": 3}, ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found."),
    ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
]


@pytest.mark.parametrize(("fields", "error_code", "sentence"), REFUSALS)
def test_a_bad_request_is_refused_and_changes_nothing(
    fields: dict[str, Any], error_code: int, sentence: str
) -> None:
    world = World()
    response = world.heartbeat(fields.pop("member_id", "m1"), fields.pop("member_epoch", 0), **fields)
    assert (response.error_code, response.error_message) == (error_code, sentence)
    assert world.log == []
    assert len(world.shard.deadlines) == 0


def test_the_broker_makes_up_an_id_for_a_member_of_version_0() -> None:
    world = World()
    response = world.heartbeat("", 0, version=0)
    assert response.error_code == ErrorCode.NONE
    assert response.member_id
    assert list(world.group().members) == [response.member_id]


def test_a_full_group_takes_nobody_new_but_lets_a_static_member_come_back() -> None:
    world = World(group_consumer_max_size=2)
    world.heartbeat("m1", 0)
    world.heartbeat("s1", 0, instance_id="i1")
    response = world.heartbeat("m2", 0)
    assert response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert response.error_message == "The consumer group has reached its maximum capacity of 2 members."
    assert world.heartbeat("m1", 2).error_code == ErrorCode.NONE
    world.heartbeat("s1", -2, instance_id="i1")
    assert world.heartbeat("s2", 0, instance_id="i1").error_code == ErrorCode.NONE


def test_a_bad_pattern_is_named() -> None:
    response = World().heartbeat("m1", 0, subscribed_topic_regex="(a")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert response.error_message is not None
    assert response.error_message.startswith(
        "SubscribedTopicRegex `(a` is not a valid regular expression: missing"
    )
