"""A consumer group as ConsumerGroupDescribe shows it."""

from collections.abc import Sequence

from moldau.broker.coordinator.group.assignors import Assignment
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.consumer.member import ConsumerMember, without_epochs
from moldau.broker.coordinator.group.topics import Topics
from moldau.common.protocol.messages.consumer_group_describe import Assignment as WireAssignment
from moldau.common.protocol.messages.consumer_group_describe import DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER_TYPE, CONSUMER_MEMBER_TYPE = 0, 1


def describe(group: ConsumerGroup, assignors: Sequence[str], image: Topics) -> DescribedGroup:
    """The group with its members in the order of their ids."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name(),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor(assignors),
        members=[_member(group, group.members[member_id], image) for member_id in sorted(group.members)],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_rows(_still_consumed(member), image),
        target_assignment=_rows(group.target(member.member_id), image),
        member_type=CONSUMER_MEMBER_TYPE if member.classic is None else CLASSIC_MEMBER_TYPE,
    )


def _still_consumed(member: ConsumerMember) -> Assignment:
    """What the member may consume and what it has yet to give up: it still reads from both."""
    partitions = dict(without_epochs(member.assigned))
    for topic_id, indices in without_epochs(member.pending).items():
        partitions[topic_id] = partitions.get(topic_id, frozenset()) | indices
    return partitions


def _rows(assignment: Assignment, image: Topics) -> WireAssignment:
    """Partitions with names; those of topics that exist no longer have none and are left out."""
    names = image.topic_names
    return WireAssignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=names[topic_id], partitions=sorted(assignment[topic_id])
            )
            for topic_id in sorted(assignment, key=lambda topic_id: names.get(topic_id, ""))
            if topic_id in names
        ]
    )
