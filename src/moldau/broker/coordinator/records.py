"""The records of `__consumer_offsets`, byte for byte as Kafka writes them.

    key    | type 2 | fields of the key ... |         the type, in a version's place, names the messages
    value  | version 2 | fields of the value ... |    absent (null) in a tombstone

Values are written in the versions that Kafka 4.3 writes. Types that are not in the table (streams groups) are
left alone.
"""

import struct
from typing import Any, NamedTuple

from moldau.common.protocol.declare import ZERO_UUID, Message
from moldau.common.protocol.messages.coordinator_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

_PREFIX = struct.Struct(">h")


class GroupRecord(NamedTuple):
    """One change: message objects, which are never mutated once they are here. A None value deletes the
    key."""

    key: Any
    value: Any


class RecordType(NamedTuple):
    """One row of the table: the number that begins the key, the messages, and the version in which values are
    written."""

    type_id: int
    key: type[Message]
    value: type[Message]
    value_version: int


RECORD_TYPES: tuple[RecordType, ...] = (
    RecordType(1, OffsetCommitKey, OffsetCommitValue, 3),
    RecordType(2, GroupMetadataKey, GroupMetadataValue, 3),
    RecordType(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0),
    RecordType(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0),
    RecordType(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0),
    RecordType(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0),
    RecordType(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0),
    RecordType(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0),
    RecordType(10, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, 0),
    RecordType(11, ShareGroupMetadataKey, ShareGroupMetadataValue, 0),
    RecordType(12, ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue, 0),
    RecordType(13, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue, 0),
    RecordType(14, ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue, 0),
    RecordType(15, ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue, 0),
    RecordType(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0),
)

OFFSET_COMMIT_BEFORE_0_9 = 0
"""The type under which very old brokers wrote offset keys; the fields are those of type 1."""

OFFSET_WITH_TOPIC_ID_VERSION = 4
"""The version of an offset's value that names the topic's id, so that a new topic of the same name does not
inherit it; written where the id is known, as Kafka 4.3 does."""

EXPIRING_OFFSET_VERSION = 1
"""The only version of an offset's value that holds its own expiry time (commits of versions 2-4 may ask for
one)."""

_BY_KEY = {row.key: (_PREFIX.pack(row.type_id), row.type_id, row.value_version) for row in RECORD_TYPES}
_BY_ID = {row.type_id: row for row in RECORD_TYPES} | {OFFSET_COMMIT_BEFORE_0_9: RECORD_TYPES[0]}
_VERSION_PREFIX = [_PREFIX.pack(version) for version in range(8)]


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The bytes of a record's key and value."""
    key, value = record
    prefix, key_version, version = _BY_KEY[type(key)]
    key_bytes = prefix + key.encode(key_version)
    if value is None:
        return key_bytes, None
    if type(value) is OffsetCommitValue:
        if value.expire_timestamp != -1:
            version = EXPIRING_OFFSET_VERSION
        elif value.topic_id != ZERO_UUID:
            version = OFFSET_WITH_TOPIC_ID_VERSION
    return key_bytes, _VERSION_PREFIX[version] + value.encode(version)


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """The record that these bytes mean; None for a type that is not in the table. Raises MalformedMessage."""
    type_id = _PREFIX.unpack_from(key)[0]
    row = _BY_ID.get(type_id)
    if row is None:
        return None
    key_message = row.key.decode(key[_PREFIX.size :], type_id)
    if value is None:
        return GroupRecord(key_message, None)
    version = _PREFIX.unpack_from(value)[0]
    return GroupRecord(key_message, row.value.decode(value[_PREFIX.size :], version))


def group_metadata_record(group_id: str, value: GroupMetadataValue) -> GroupRecord:
    """What a classic group agreed on."""
    return GroupRecord(GroupMetadataKey(group=group_id), value)


def group_metadata_tombstone(group_id: str) -> GroupRecord:
    """A classic group is gone."""
    return GroupRecord(GroupMetadataKey(group=group_id), None)


def offset_tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    """A committed offset is gone."""
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
