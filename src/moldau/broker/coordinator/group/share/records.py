"""The records of a share group (KIP-932), in Kafka's own format, and reading them back.

    key                                   value
    ShareGroupMetadata(group)             the group epoch and the hash of the topics it rests on
    ...MemberMetadata(group, member)      what a member subscribes to, who it is
    ...TargetAssignmentMetadata(group)    the epoch of the targets, and when they were computed
    ...TargetAssignmentMember(group, m)   what a member should have
    ...CurrentMemberAssignment(group, m)  a member's epoch, and what it has
    ...StatePartitionMetadata(group)      which share-partitions have state at the share coordinator

A record without a value (a tombstone) takes the thing away. Rows are written in order, so that the same state
always gives the same bytes.
"""

from collections.abc import Iterable

from moldau.broker.coordinator.group.assignors import Assignment
from moldau.broker.coordinator.group.share.member import ShareMember
from moldau.broker.coordinator.group.share.states import SharePartitionStates, StateTopic, StateTopics
from moldau.broker.coordinator.records import GroupRecord
from moldau.common.protocol.messages import coordinator_records as formats


def group_record(group_id: str, group_epoch: int, metadata_hash: int) -> GroupRecord:
    """The group epoch."""
    value = formats.ShareGroupMetadataValue(epoch=group_epoch, metadata_hash=metadata_hash)
    return GroupRecord(formats.ShareGroupMetadataKey(group_id=group_id), value)


def group_tombstone(group_id: str) -> GroupRecord:
    """The group is gone."""
    return GroupRecord(formats.ShareGroupMetadataKey(group_id=group_id), None)


def member_record(group_id: str, member: ShareMember) -> GroupRecord:
    """What a member subscribes to, and who it is."""
    value = formats.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
    )
    key = formats.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return GroupRecord(key, value)


def assignment_epoch_record(group_id: str, assignment_epoch: int, assigned_at_ms: int) -> GroupRecord:
    """The epoch of the targets; written after them."""
    value = formats.ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=assignment_epoch, assignment_timestamp=assigned_at_ms
    )
    return GroupRecord(formats.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def assignment_epoch_tombstone(group_id: str) -> GroupRecord:
    """There are no targets any more."""
    return GroupRecord(formats.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: Assignment) -> GroupRecord:
    """What a member should have."""
    value = formats.ShareGroupTargetAssignmentMemberValue(topic_partitions=_rows(target))
    key = formats.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return GroupRecord(key, value)


def current_record(group_id: str, member: ShareMember) -> GroupRecord:
    """A member's epoch and partitions."""
    value = formats.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        assigned_partitions=_rows(member.assigned),
    )
    key = formats.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return GroupRecord(key, value)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """A member is gone."""
    names = {"group_id": group_id, "member_id": member_id}
    return [
        GroupRecord(kind(**names), None)
        for kind in (
            formats.ShareGroupCurrentMemberAssignmentKey,
            formats.ShareGroupTargetAssignmentMemberKey,
            formats.ShareGroupMemberMetadataKey,
        )
    ]


def states_record(group_id: str, states: SharePartitionStates) -> GroupRecord:
    """Which share-partitions have state."""
    value = formats.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_state_rows(states.initializing),
        initialized_topics=_state_rows(states.initialized),
        deleting_topics=[
            formats.StateTopic(topic_id=topic_id, topic_name=states.deleting[topic_id].name)
            for topic_id in sorted(states.deleting)
        ],
    )
    return GroupRecord(formats.ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def states_tombstone(group_id: str) -> GroupRecord:
    """No share-partition of the group has state any more."""
    return GroupRecord(formats.ShareGroupStatePartitionMetadataKey(group_id=group_id), None)


def assignment_from(rows: Iterable[formats.TopicPartition]) -> Assignment:
    """The partitions that a record carries."""
    return {row.topic_id: frozenset(row.partitions) for row in rows}


def states_from(value: formats.ShareGroupStatePartitionMetadataValue) -> SharePartitionStates:
    """The states that a record carries."""
    return SharePartitionStates(
        {
            row.topic_id: StateTopic(row.topic_name, frozenset(row.partitions))
            for row in value.initializing_topics
        },
        {
            row.topic_id: StateTopic(row.topic_name, frozenset(row.partitions))
            for row in value.initialized_topics
        },
        {row.topic_id: StateTopic(row.topic_name) for row in value.deleting_topics},
    )


def _rows(assignment: Assignment) -> list[formats.TopicPartition]:
    return [
        formats.TopicPartition(topic_id=topic_id, partitions=sorted(assignment[topic_id]))
        for topic_id in sorted(assignment)
    ]


def _state_rows(topics: StateTopics) -> list[formats.StateTopicPartitions]:
    return [
        formats.StateTopicPartitions(
            topic_id=topic_id,
            topic_name=topics[topic_id].name,
            partitions=sorted(topics[topic_id].partitions),
        )
        for topic_id in sorted(topics)
    ]
