"""Share groups (KIP-932): described with their members; where they begin in partitions, how many records are
not done, and moving that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.client.admin.groups import Group, Member, Place, coordinator_of
from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_coordinator
from moldau.client.cluster import Cluster
from moldau.client.errors import RequestRefused
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import alter_share_group_offsets as alter_messages
from moldau.common.protocol.messages import delete_share_group_offsets as delete_messages
from moldau.common.protocol.messages import describe_share_group_offsets as describe_messages
from moldau.common.protocol.messages.share_group_describe import ShareGroupDescribeRequest

SHARE = "share"


class ShareOffset(NamedTuple):
    """Where a share group begins in a partition: everything before is done. None: not known (yet)."""

    topic: str
    partition: int
    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


def find_share_group(cluster: Cluster, group_id: str) -> Group | None:
    """One share group; None if there is none of the id, or brokers do not know share groups."""
    request = ShareGroupDescribeRequest(group_ids=[group_id])
    try:
        answer = ask_coordinator(
            cluster, group_id, request, lambda got: [each.error_code for each in got.groups]
        )
    except RequestRefused as refusal:
        if refusal.error_code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return None
    (found,) = answer.groups
    if found.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check(found.error_code, found.error_message)
    members = tuple(
        Member(
            each.member_id,
            None,
            each.client_id,
            each.client_host,
            tuple(
                sorted(
                    (topic.topic_name, index)
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                )
            ),
            each.member_epoch,
        )
        for each in found.members
    )
    return Group(
        found.group_id,
        found.group_state,
        found.assignor_name,
        coordinator_of(cluster, group_id),
        members,
        protocol_type=SHARE,
        type="SHARE",
        epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
    )


def share_offsets(cluster: Cluster, group_id: str) -> list[ShareOffset]:
    """Where the group begins, in order of the partitions. KafkaProblem GROUP_ID_NOT_FOUND if there is
    none."""
    request = describe_messages.DescribeShareGroupOffsetsRequest(
        groups=[describe_messages.RequestGroup(group_id=group_id, topics=None)]
    )
    answer = ask_coordinator(cluster, group_id, request, lambda got: [each.error_code for each in got.groups])
    (found,) = answer.groups
    check(found.error_code, found.error_message)
    return sorted(
        ShareOffset(
            topic.topic_name,
            row.partition_index,
            row.start_offset if row.start_offset >= 0 else None,
            row.leader_epoch,
            row.lag if row.lag >= 0 else None,
        )
        for topic in found.topics
        for row in topic.partitions
        if not row.error_code
    )


def alter_share_offsets(cluster: Cluster, group_id: str, offsets: Mapping[Place, int]) -> dict[Place, int]:
    """Let an empty group begin at these offsets; the error code of each. KafkaProblem if the group
    refuses."""
    topics: dict[str, list[alter_messages.RequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        row = alter_messages.RequestPartition(partition_index=index, start_offset=offset)
        topics.setdefault(topic, []).append(row)
    request = alter_messages.AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            alter_messages.RequestTopic(topic_name=name, partitions=rows) for name, rows in topics.items()
        ],
    )
    answer = ask_coordinator(cluster, group_id, request, lambda got: [got.error_code])
    check(answer.error_code, answer.error_message)
    return {
        (topic.topic_name, row.partition_index): row.error_code
        for topic in answer.responses
        for row in topic.partitions
    }


def delete_share_offsets(cluster: Cluster, group_id: str, topics: Iterable[str]) -> dict[str, int]:
    """Let an empty group forget topics; the error code of each. KafkaProblem if the group refuses."""
    request = delete_messages.DeleteShareGroupOffsetsRequest(
        group_id=group_id, topics=[delete_messages.RequestTopic(topic_name=name) for name in topics]
    )
    answer = ask_coordinator(cluster, group_id, request, lambda got: [got.error_code])
    check(answer.error_code, answer.error_message)
    return {topic.topic_name: topic.error_code for topic in answer.responses}
