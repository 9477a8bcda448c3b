"""Coordinator records against bytes worked out by hand from Kafka's schemas (no oracle has them)."""

import pytest

from moldau.common.protocol.messages.coordinator_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
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
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
    TopicPartitions,
)
from moldau.common.protocol.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

ID = bytes(range(16))

OFFSET = OffsetCommitValue(offset=258, leader_epoch=7, metadata="hi", commit_timestamp=1)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader=None,
    current_state_timestamp=5,
    members=[
        MemberMetadata(
            member_id="m",
            group_instance_id="i",
            client_id="c",
            client_host="/h",
            rebalance_timeout=60,
            session_timeout=10,
            subscription=b"S",
            assignment=b"",
        )
    ],
)
TRANSACTION = TransactionLogValue(
    producer_id=9,
    producer_epoch=2,
    transaction_timeout_ms=100,
    transaction_status=1,
    transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[4])],
    transaction_last_update_timestamp_ms=6,
    transaction_start_timestamp_ms=5,
)

GOLDEN = [
    (OffsetCommitKey(group="g", topic="t", partition=2), 1, "0001 67 0001 74 00000002"),
    (OffsetCommitKey(group="g", topic="t", partition=2), 0, "0001 67 0001 74 00000002"),
    (OFFSET, 3, "0000000000000102 00000007 0002 6869 0000000000000001"),
    (OFFSET, 4, "0000000000000102 00000007 03 6869 0000000000000001 00"),
    (
        OffsetCommitValue(offset=1, metadata="", commit_timestamp=2, topic_id=ID),
        4,
        "0000000000000001 ffffffff 01 0000000000000002 01 00 10" + ID.hex(),
    ),
    (
        OffsetCommitValue(offset=1, metadata="", commit_timestamp=2, expire_timestamp=3),
        1,
        "0000000000000001 0000 0000000000000002 0000000000000003",
    ),
    (
        OffsetCommitValue(offset=1, metadata="", commit_timestamp=2),
        0,
        "0000000000000001 0000 0000000000000002",
    ),
    (GroupMetadataKey(group="gr"), 2, "0002 6772"),
    (
        GROUP,
        3,
        "0008 636f6e73756d6572 00000003 0005 72616e6765 ffff 0000000000000005 00000001"
        "0001 6d 0001 69 0001 63 0002 2f68 0000003c 0000000a 00000001 53 00000000",
    ),
    (
        GROUP,
        4,
        "09 636f6e73756d6572 00000003 06 72616e6765 00 0000000000000005 02"
        "02 6d 02 69 02 63 03 2f68 0000003c 0000000a 02 53 01 00 00",
    ),
    (
        GroupMetadataValue(protocol="p", leader="l", members=[MemberMetadata(session_timeout=1)]),
        0,
        "0000 00000000 0001 70 0001 6c 00000001 0000 0000 0000 00000001 00000000 00000000",
    ),
    (ConsumerGroupMetadataKey(group_id="g"), 3, "0001 67"),
    (ConsumerGroupMetadataValue(epoch=10), 0, "0000000a 00"),
    (ConsumerGroupMetadataValue(epoch=10, metadata_hash=-1), 0, "0000000a 01 00 08 ffffffffffffffff"),
    (ConsumerGroupPartitionMetadataKey(group_id="g"), 4, "0001 67"),
    (
        ConsumerGroupPartitionMetadataValue(
            topics=[
                TopicMetadata(
                    topic_id=ID,
                    topic_name="t",
                    num_partitions=2,
                    partition_metadata=[PartitionMetadata(partition=1, racks=["r"])],
                )
            ]
        ),
        0,
        "02" + ID.hex() + "02 74 00000002 02 00000001 02 02 72 00 00 00",
    ),
    (ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), 5, "0001 67 0001 6d"),
    (
        ConsumerGroupMemberMetadataValue(
            instance_id="i", client_id="c", client_host="h", subscribed_topic_names=["t"], server_assignor="u"
        ),
        0,
        "02 69 00 02 63 02 68 02 02 74 00 ffffffff 02 75 00",
    ),
    (
        ConsumerGroupMemberMetadataValue(
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=5, supported_protocols=[ClassicProtocol(name="r", metadata=b"M")]
            )
        ),
        0,
        # Seven empty fields, then one tag: a nullable struct (01: it is there), in 13 bytes.
        "00 00 01 01 01 00 ffffffff 00 01 00 0c 01 00000005 02 02 72 02 4d 00 00",
    ),
    (ConsumerGroupTargetAssignmentMetadataKey(group_id="g"), 6, "0001 67"),
    (ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4), 0, "00000004 00"),
    (ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"), 7, "0001 67 0001 6d"),
    (
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TopicPartition(topic_id=ID, partitions=[1, 2])]
        ),
        0,
        "02" + ID.hex() + "03 00000001 00000002 00 00",
    ),
    (ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), 8, "0001 67 0001 6d"),
    (
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=3,
            previous_member_epoch=2,
            state=1,
            assigned_partitions=[TopicPartitions(topic_id=ID, partitions=[0], assignment_epochs=[3])],
        ),
        0,
        "00000003 00000002 01 02" + ID.hex() + "02 00000000 01 00 05 02 00000003 01 00",
    ),
    (ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="a.*"), 16, "0001 67 0003 612e2a"),
    (
        ConsumerGroupRegularExpressionValue(topics=["ab"], version=1, timestamp=2),
        0,
        "02 03 6162 0000000000000001 0000000000000002 00",
    ),
    (TransactionLogKey(transactional_id="tx"), 0, "0002 7478"),
    (
        TRANSACTION,
        0,
        "0000000000000009 0002 00000064 01 00000001 0001 74 00000001 00000004"
        "0000000000000006 0000000000000005",
    ),
    (
        TransactionLogValue(
            producer_id=9, producer_epoch=2, transaction_partitions=None, client_transaction_version=2
        ),
        1,
        "0000000000000009 0002 00000000 00 00 0000000000000000 0000000000000000 01 02 02 0002",
    ),
]


@pytest.mark.parametrize(
    ("record", "version", "expected"),
    GOLDEN,
    ids=lambda value: type(value).__name__ if hasattr(value, "KEY") else None,
)
def test_golden_bytes(record, version, expected):
    data = bytes.fromhex(expected)
    assert record.encode(version) == data
    assert type(record).decode(data, version).encode(version) == data


def test_a_tagged_struct_may_be_null_by_a_zero():
    """Among untagged fields -1 says null; in a tag section Kafka writes 0."""
    plain = ConsumerGroupMemberMetadataValue()
    data = plain.encode(0)[:-1] + bytes.fromhex("01 00 01 00")
    assert ConsumerGroupMemberMetadataValue.decode(data, 0) == plain


def test_key_types():
    """The record type stands in KEY; it is the version of the key, too."""
    types = {
        cls.KEY
        for cls, _ in {(type(record), record.KEY) for record, _, _ in GOLDEN}
        if cls.__name__.endswith("Key")
    }
    assert types == {0, 1, 2, 3, 4, 5, 6, 7, 8, 16}
