"""A share group as ShareGroupDescribe shows it."""

from moldau.broker.coordinator.group.assignors import Assignment
from moldau.broker.coordinator.group.share.group import ASSIGNOR, ShareGroup
from moldau.broker.coordinator.group.share.member import ShareMember
from moldau.broker.coordinator.group.topics import Topics
from moldau.common.protocol.messages.share_group_describe import Assignment as WireAssignment
from moldau.common.protocol.messages.share_group_describe import DescribedGroup, Member, TopicPartitions


def describe(group: ShareGroup, image: Topics) -> DescribedGroup:
    """The group with its members in the order of their ids."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name(),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(group.members[member_id], image) for member_id in sorted(group.members)],
    )


def _member(member: ShareMember, image: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=_rows(member.assigned, image),
    )


def _rows(assignment: Assignment, image: Topics) -> WireAssignment:
    """Partitions with names; those of topics that exist no longer are left out."""
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
