"""Reading and writing what consumers put into the classic protocol's bytes."""

import struct

import pytest
from consumer_world import image_of, topic_id

from moldau.broker.coordinator.group.classic.subscription import subscribed_topics
from moldau.broker.coordinator.group.migration.embedded_protocol import (
    TOPICS_MAX,
    Malformed,
    Subscription,
    read_assignment,
    read_subscription,
    subscription_version,
    with_topic_ids,
    write_assignment,
)
from moldau.common.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from moldau.common.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedRow
from moldau.common.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)


def subscription(version: int, **fields: object) -> bytes:
    message = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"sticky", **fields)
    return struct.pack(">h", version) + message.encode(version)


OWNED = [TopicPartition(topic="a", partitions=[0, 2])]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, Subscription(0, frozenset("ab"), (), -1, None)),
        (1, Subscription(1, frozenset("ab"), (("a", (0, 2)),), -1, None)),
        (2, Subscription(2, frozenset("ab"), (("a", (0, 2)),), 7, None)),
        (3, Subscription(3, frozenset("ab"), (("a", (0, 2)),), 7, "r1")),
    ],
)
def test_a_subscription_of_each_version(version: int, expected: Subscription) -> None:
    data = subscription(version, owned_partitions=OWNED, generation_id=7, rack_id="r1")
    assert read_subscription(data) == expected
    assert subscription_version(data) == version


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    data = struct.pack(">h", 9) + subscription(3, generation_id=7)[2:] + b"what version 9 added"
    assert read_subscription(data).generation == 7
    assert subscription_version(data) == 3


def test_every_piece_of_a_subscription_is_malformed() -> None:
    data = subscription(3, owned_partitions=OWNED, generation_id=7, rack_id="r1")
    for length in range(len(data)):
        with pytest.raises(Malformed):
            read_subscription(data[:length])


def test_a_claimed_length_is_checked_before_it_is_read() -> None:
    with pytest.raises(Malformed, match="2147483647"):
        read_subscription(struct.pack(">hi", 0, 2**31 - 1) + b"\x00\x01a")
    with pytest.raises(Malformed):
        read_assignment(struct.pack(">hi", 0, -1))


def test_an_assignment_and_whether_an_assignor_left_data_with_it() -> None:
    rows = [AssignedRow(topic="a", partitions=[1, 4]), AssignedRow(topic="gone", partitions=[0])]
    for user_data, has_user_data in ((None, False), (b"", False), (b"x", True)):
        message = ConsumerProtocolAssignment(assigned_partitions=rows, user_data=user_data)
        read = read_assignment(b"\x00\x01" + message.encode(1))
        assert read == ((("a", (1, 4)), ("gone", (0,))), has_user_data)
    assert with_topic_ids(read[0], image_of({"a": 6})) == {topic_id("a"): frozenset({1, 4})}


def test_what_is_written_is_what_a_leader_would_send() -> None:
    image = image_of({"b": 4, "a": 6})
    written = write_assignment(
        {topic_id("b"): frozenset({3}), topic_id("a"): frozenset({2, 0}), b"?" * 16: frozenset({1})}, image, 9
    )
    rows = [AssignedRow(topic="a", partitions=[0, 2]), AssignedRow(topic="b", partitions=[3])]
    assert written == b"\x00\x03" + ConsumerProtocolAssignment(assigned_partitions=rows).encode(3)


def test_partitions_that_do_not_exist_are_left_out() -> None:
    image = image_of({"a": 3})
    named = (("a", (2, 3, -1, 0, 2)), ("a", (1,)), ("gone", (0,)))
    assert with_topic_ids(named, image) == {topic_id("a"): frozenset({0, 1, 2})}
    assert with_topic_ids((("a", (3, 70_000)),), image) == {}


def test_who_names_more_than_is_decided_on_at_once_is_not_read() -> None:
    many = [f"{number:x}" for number in range(TOPICS_MAX + 1)]
    for names, readable in ((many[1:], True), (many, False)):
        data = b"\x00\x00" + ConsumerProtocolSubscription(topics=names).encode(0)
        assert (subscribed_topics([data]) is not None) is readable
        assert _is_read(data) is readable
    for counts, readable in (((60_000, 40_000), True), ((60_000, 40_001), False)):
        rows = [TopicPartition(topic="a", partitions=list(range(count))) for count in counts]
        assert (
            _is_read(b"\x00\x01" + ConsumerProtocolSubscription(owned_partitions=rows).encode(1)) is readable
        )


def _is_read(data: bytes) -> bool:
    try:
        read_subscription(data)
    except Malformed:
        return False
    return True
