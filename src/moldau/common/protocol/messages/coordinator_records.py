"""What stands in `__consumer_offsets`: keys and values of offsets and groups, byte for byte as Kafka writes
them.

A key is `| record type 2 | key |`, a value `| version 2 | value |`; a null value deletes. For a key the
record type takes the version's place, so `key.encode(key.KEY)` behind two bytes of `KEY` is the whole of it.
Values are written in the version that 4.3 writes, and read in any:

    type  key                                      value written in
    0, 1  OffsetCommitKey (0 is the old form)      4 with the topic's id, 3 without, 1 with an expiry
    2     GroupMetadataKey                         3
    3     ConsumerGroupMetadataKey                 0
    4     ConsumerGroupPartitionMetadataKey        0 (deleted since 4.1)
    5     ConsumerGroupMemberMetadataKey           0
    6     ConsumerGroupTargetAssignmentMetadataKey 0
    7     ConsumerGroupTargetAssignmentMemberKey   0
    8     ConsumerGroupCurrentMemberAssignmentKey  0
    10    ShareGroupMemberMetadataKey              0
    11    ShareGroupMetadataKey                    0
    12    ShareGroupTargetAssignmentMetadataKey    0
    13    ShareGroupTargetAssignmentMemberKey      0
    14    ShareGroupCurrentMemberAssignmentKey     0
    15    ShareGroupStatePartitionMetadataKey      0
    16    ConsumerGroupRegularExpressionKey        0

Groups keep to version 3 for the sake of a downgrade; their version 4, which is flexible, is only read.
Not here: streams groups (17 and up), and type 9, which no release writes; readers step over types that they
do not know.
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Bytes,
    Int8,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    field,
    message,
    since,
    tagged,
)


@message(key=1, versions=(0, 1), flexible_from=None)
class OffsetCommitKey(Message):
    """Which offset: group, topic, partition. Type 0 is read, type 1 written."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@message(versions=(0, 4), flexible_from=4)
class OffsetCommitValue(Message):
    """A committed offset; timestamps in milliseconds. Only version 1 has an expiry of its own (-1: none)."""

    offset: Int64 = 0
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = field(since=1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = tagged(0, since=4, ignorable=True)


@message(key=2, versions=(2, 2), flexible_from=None)
class GroupMetadataKey(Message):
    """Which classic group."""

    group: String = ""


@message(versions=(0, 4), flexible_from=4)
class GroupMetadataValue(Message):
    """A classic group at the end of a rebalance, with everything that its members must find again."""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: NullableString = ""
    leader: NullableString = ""
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: list[MemberMetadata] = array()


class MemberMetadata(Struct):
    """A member of a classic group; timeouts in milliseconds."""

    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Int32 = since(1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@message(key=3, versions=(3, 3), flexible_from=None)
class ConsumerGroupMetadataKey(Message):
    """Which KIP-848 group."""

    group_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupMetadataValue(Message):
    """A KIP-848 group's epoch, and a hash of the topics it is subscribed to (KIP-1101)."""

    epoch: Int32 = 0
    metadata_hash: Int64 = tagged(0)


@message(key=4, versions=(4, 4), flexible_from=None)
class ConsumerGroupPartitionMetadataKey(Message):
    """Which KIP-848 group."""

    group_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupPartitionMetadataValue(Message):
    """The topics that a group was assigned by, as Kafka 4.0 wrote them."""

    topics: list[TopicMetadata] = array()


class TopicMetadata(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = array()


class PartitionMetadata(Struct):
    partition: Int32 = 0
    racks: list[String] = array()


@message(key=5, versions=(5, 5), flexible_from=None)
class ConsumerGroupMemberMetadataKey(Message):
    """Which member of which KIP-848 group."""

    group_id: String = ""
    member_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupMemberMetadataValue(Message):
    """What a member has said about itself; `classic_member_metadata` if it speaks the classic protocol."""

    instance_id: NullableString = None
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = array()
    subscribed_topic_regex: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: NullableString = None
    classic_member_metadata: ClassicMemberMetadata | None = tagged(0, default=None)


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = array()


class ClassicProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


@message(key=6, versions=(6, 6), flexible_from=None)
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Which KIP-848 group."""

    group_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target assignment was made for, and when, in milliseconds (4.3, KIP-1263)."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = tagged(0)


@message(key=7, versions=(7, 7), flexible_from=None)
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Which member of which KIP-848 group."""

    group_id: String = ""
    member_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """What a member is meant to have."""

    topic_partitions: list[TopicPartition] = array()


class TopicPartition(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = array()


@message(key=8, versions=(8, 8), flexible_from=None)
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Which member of which KIP-848 group."""

    group_id: String = ""
    member_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """What a member has, and what it still has to give back.

    state: 1 stable, 2 unrevoked partitions, 3 unreleased partitions, 127 unknown.
    """

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = array()
    partitions_pending_revocation: list[TopicPartitions] = array()


class TopicPartitions(Struct):
    """Partitions of a topic, each with the member epoch that it was assigned in (KIP-1251), if known."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = array()
    assignment_epochs: list[Int32] | None = tagged(0, default=None)


@message(key=10, versions=(10, 10), flexible_from=None)
class ShareGroupMemberMetadataKey(Message):
    """Which member of which share group."""

    group_id: String = ""
    member_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ShareGroupMemberMetadataValue(Message):
    """What a member has said about itself."""

    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = array()


@message(key=11, versions=(11, 11), flexible_from=None)
class ShareGroupMetadataKey(Message):
    """Which share group."""

    group_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ShareGroupMetadataValue(Message):
    """A share group's epoch, and a hash of the topics it is subscribed to (KIP-1101)."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0


@message(key=12, versions=(12, 12), flexible_from=None)
class ShareGroupTargetAssignmentMetadataKey(Message):
    """Which share group."""

    group_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target assignment was made for, and when, in milliseconds (4.3, KIP-1263)."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = tagged(0, ignorable=True)


@message(key=13, versions=(13, 13), flexible_from=None)
class ShareGroupTargetAssignmentMemberKey(Message):
    """Which member of which share group."""

    group_id: String = ""
    member_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ShareGroupTargetAssignmentMemberValue(Message):
    """What a member is meant to have."""

    topic_partitions: list[TopicPartition] = array()


@message(key=14, versions=(14, 14), flexible_from=None)
class ShareGroupCurrentMemberAssignmentKey(Message):
    """Which member of which share group."""

    group_id: String = ""
    member_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ShareGroupCurrentMemberAssignmentValue(Message):
    """What a member has. State: always 0, stable."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartition] = array()


@message(key=15, versions=(15, 15), flexible_from=None)
class ShareGroupStatePartitionMetadataKey(Message):
    """Which share group."""

    group_id: String = ""


@message(versions=(0, 0), flexible_from=0)
class ShareGroupStatePartitionMetadataValue(Message):
    """Which share-partitions have state at the share coordinator, and which get it or lose it now."""

    initializing_topics: list[StateTopicPartitions] = array()
    initialized_topics: list[StateTopicPartitions] = array()
    deleting_topics: list[StateTopic] = array()


class StateTopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: list[Int32] = array()


class StateTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""


@message(key=16, versions=(16, 16), flexible_from=None)
class ConsumerGroupRegularExpressionKey(Message):
    """Which subscription by regular expression of which KIP-848 group."""

    group_id: String = ""
    regular_expression: String = ""


@message(versions=(0, 0), flexible_from=0)
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that matched, at a version of the metadata image, at a time in milliseconds."""

    topics: list[String] = array()
    version: Int64 = 0
    timestamp: Int64 = 0
