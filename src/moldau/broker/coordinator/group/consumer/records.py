"""The records of a consumer group (KIP-848), in Kafka's own format, and reading them back.

    key                                   value
    ConsumerGroupMetadata(group)          the group epoch and the hash of the topics it rests on
    ...MemberMetadata(group, member)      what a member subscribes to, who it is
    ...TargetAssignmentMetadata(group)    the epoch of the targets, and when they were computed
    ...TargetAssignmentMember(group, m)   what a member should have
    ...CurrentMemberAssignment(group, m)  a member's epoch, what it has, what it still has to revoke
    ...RegularExpression(group, pattern)  the topics that a pattern matched

A record without a value (a tombstone) takes the thing away. ConsumerGroupPartitionMetadata, which Kafka wrote
before 4.1, is read past. Partitions are written in order, so that the same state always gives the same bytes.
"""

from collections.abc import Mapping
from typing import Any

from moldau.broker.coordinator.group.assignors import Assignment
from moldau.broker.coordinator.group.consumer.member import ClassicSide, ConsumerMember, PartitionEpochs
from moldau.broker.coordinator.records import GroupRecord
from moldau.common.protocol.messages import coordinator_records as formats


def group_record(group_id: str, group_epoch: int, metadata_hash: int) -> GroupRecord:
    """The group epoch."""
    value = formats.ConsumerGroupMetadataValue(epoch=group_epoch, metadata_hash=metadata_hash)
    return GroupRecord(formats.ConsumerGroupMetadataKey(group_id=group_id), value)


def group_tombstone(group_id: str) -> GroupRecord:
    """The group is gone."""
    return GroupRecord(formats.ConsumerGroupMetadataKey(group_id=group_id), None)


def partition_metadata_tombstone(group_id: str) -> GroupRecord:
    """Takes away what a Kafka before 4.1 may have left behind about the group's topics."""
    return GroupRecord(formats.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """What a member subscribes to, and who it is."""
    value = formats.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=_classic_value(member.classic),
    )
    return GroupRecord(
        formats.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value
    )


def _classic_value(classic: ClassicSide | None) -> formats.ClassicMemberMetadata | None:
    if classic is None:
        return None
    return formats.ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            formats.ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols
        ],
    )


def _classic_side(value: formats.ClassicMemberMetadata | None) -> ClassicSide | None:
    if value is None:
        return None
    protocols = tuple((row.name, bytes(row.metadata)) for row in value.supported_protocols)
    return ClassicSide(value.session_timeout_ms, protocols)


def member_fields(value: formats.ConsumerGroupMemberMetadataValue) -> dict[str, Any]:
    """The fields of `ConsumerMember` that a metadata record carries."""
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topic_names": frozenset(value.subscribed_topic_names),
        "topic_regex": value.subscribed_topic_regex or "",
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "assignor": value.server_assignor,
        "classic": _classic_side(value.classic_member_metadata),
    }


def assignment_epoch_record(group_id: str, assignment_epoch: int, assigned_at_ms: int) -> GroupRecord:
    """The epoch of the targets; written after them, so that whoever reads it has them."""
    value = formats.ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=assignment_epoch, assignment_timestamp=assigned_at_ms
    )
    return GroupRecord(formats.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def assignment_epoch_tombstone(group_id: str) -> GroupRecord:
    """There are no targets any more."""
    return GroupRecord(formats.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: Assignment) -> GroupRecord:
    """What a member should have."""
    value = formats.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            formats.TopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id]))
            for topic_id in sorted(target)
        ]
    )
    return GroupRecord(
        formats.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value
    )


def target_from(value: formats.ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    """The target that a record carries."""
    return {row.topic_id: frozenset(row.partitions) for row in value.topic_partitions}


def current_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """A member's epoch and partitions."""
    value = formats.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=int(member.state),
        assigned_partitions=_rows(member.assigned),
        partitions_pending_revocation=_rows(member.pending),
    )
    key = formats.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return GroupRecord(key, value)


def _rows(partitions: PartitionEpochs) -> list[formats.TopicPartitions]:
    rows = []
    for topic_id in sorted(partitions):
        epochs = sorted(partitions[topic_id].items())
        rows.append(
            formats.TopicPartitions(
                topic_id=topic_id,
                partitions=[index for index, _ in epochs],
                assignment_epochs=[epoch for _, epoch in epochs],
            )
        )
    return rows


def partitions_from(rows: list[formats.TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """The partitions of a current assignment. Kafka before 4.3 did not write since when; the member's epoch
    serves."""
    partitions: dict[bytes, Mapping[int, int]] = {}
    for row in rows:
        epochs = row.assignment_epochs or [member_epoch] * len(row.partitions)
        partitions[row.topic_id] = dict(zip(row.partitions, epochs, strict=True))
    return partitions


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """A member is gone: first what it held, then what it should hold, then itself."""
    return [
        GroupRecord(
            formats.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
        ),
        GroupRecord(
            formats.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
        ),
        GroupRecord(formats.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def regex_record(
    group_id: str, pattern: str, topics: frozenset[str], image_version: int, at_ms: int
) -> GroupRecord:
    """The topics that a pattern matched."""
    value = formats.ConsumerGroupRegularExpressionValue(
        topics=sorted(topics), version=image_version, timestamp=at_ms
    )
    return GroupRecord(
        formats.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value
    )


def regex_tombstone(group_id: str, pattern: str) -> GroupRecord:
    """No member uses the pattern any more."""
    return GroupRecord(
        formats.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None
    )
