"""The bytes of records, against what Kafka 4.3 wrote into its own __consumer_offsets."""

import pytest

from moldau.broker.coordinator.records import GroupRecord, decode, encode
from moldau.common.protocol.messages.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

TOPIC_ID = bytes.fromhex("a6f0507ab4a9498eb148 4c2150 5f3f28".replace(" ", ""))
KEY = OffsetCommitKey(group="", topic="topic-grp-1069dde9", partition=0)
KEY_BYTES = b"\x00\x01\x00\x00\x00\x12topic-grp-1069dde9\x00\x00\x00\x00"


def test_an_offset_with_its_topic_id() -> None:
    value = OffsetCommitValue(
        offset=1, leader_epoch=-1, metadata="", commit_timestamp=1795241260983, topic_id=TOPIC_ID
    )
    expected = (
        b"\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\x01"
        b"\x00\x00\x01\xa1\xfc\xb7\xb7\xb7\x01\x00\x10"
    )
    assert encode(GroupRecord(KEY, value)) == (KEY_BYTES, expected + TOPIC_ID)
    assert decode(KEY_BYTES, expected + TOPIC_ID) == GroupRecord(KEY, value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=5), b"\x00\x03"),
        (OffsetCommitValue(offset=7, metadata="m", commit_timestamp=5, expire_timestamp=9), b"\x00\x01"),
    ],
)
def test_other_versions_of_an_offset(value: OffsetCommitValue, expected: bytes) -> None:
    key_bytes, value_bytes = encode(GroupRecord(KEY, value))
    assert value_bytes is not None
    assert value_bytes[:2] == expected
    assert decode(key_bytes, value_bytes) == GroupRecord(KEY, value)


def test_the_key_of_very_old_brokers() -> None:
    record = decode(b"\x00\x00" + KEY_BYTES[2:], None)
    assert record == GroupRecord(KEY, None)


def test_a_group() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="a",
        current_state_timestamp=1795241399594,
        members=[
            MemberMetadata(
                member_id="a",
                group_instance_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=60000,
                session_timeout=10000,
                subscription=b"s",
                assignment=b"t",
            )
        ],
    )
    key_bytes, value_bytes = encode(GroupRecord(GroupMetadataKey(group="g"), value))
    assert key_bytes == b"\x00\x02\x00\x01g"
    assert value_bytes == (
        b"\x00\x03\x00\x08consumer\x00\x00\x00\x03\x00\x05range\x00\x01a\x00\x00\x01\xa1\xfc\xb9\xd5\x2a"
        b"\x00\x00\x00\x01\x00\x01a\xff\xff\x00\x01c\x00\x0a/127.0.0.1\x00\x00\xea\x60\x00\x00\x27\x10"
        b"\x00\x00\x00\x01s\x00\x00\x00\x01t"
    )
    assert decode(key_bytes, value_bytes) == GroupRecord(GroupMetadataKey(group="g"), value)


def test_types_of_streams_groups_are_left_alone() -> None:
    assert decode(b"\x00\x11\x00\x01g", b"\x00\x00") is None
