"""Members that leave a consumer group, or are removed (KIP-848).

A member that leaves (epoch -1), expires or does not revoke in time is *fenced*: everything it held is free at
once, the group epoch goes up, and the next heartbeat of another member computes the new target. A
static member that leaves for a moment (epoch -2) keeps its place and its partitions until its session ends or
it comes back.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from moldau.broker.coordinator.group.consumer import records
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup, all_topic_names
from moldau.broker.coordinator.group.consumer.member import NO_PARTITIONS, STATIC_LEAVE_EPOCH, ConsumerMember
from moldau.broker.coordinator.group.consumer.requests import (
    Rejected,
    check_instance,
    unknown_instance,
    unknown_member,
)
from moldau.broker.coordinator.group.topics import Topics, metadata_hash
from moldau.common.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def find_leaver(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember | Rejected:
    """The member that wants to leave."""
    if request.instance_id is None:
        return group.members.get(request.member_id) or unknown_member(group, request.member_id)
    holder = group.static_member(request.instance_id)
    if holder is None:
        return unknown_instance(request.instance_id)
    return check_instance(holder, request.member_id, request.instance_id) or holder


def leave_for_a_moment(group: ConsumerGroup, member: ConsumerMember) -> list[Any]:
    """A static member leaves for a moment. What it had to revoke, it no longer owns."""
    away = replace(member, member_epoch=STATIC_LEAVE_EPOCH, pending=NO_PARTITIONS)
    return [records.current_record(group.group_id, away)]


def fence(group: ConsumerGroup, leaving: Collection[str], image: Topics) -> list[Any]:
    """Remove members permanently."""
    remaining = {known_id: known for known_id, known in group.members.items() if known_id not in leaving}
    used = {known.topic_regex for known in remaining.values()}
    resolved = {pattern: topics for pattern, topics in group.resolved_topics().items() if pattern in used}
    digest = metadata_hash(all_topic_names(remaining.values(), resolved), image)
    return [
        *[row for member_id in leaving for row in records.member_tombstones(group.group_id, member_id)],
        *[
            records.regex_tombstone(group.group_id, pattern)
            for pattern in group.regexes
            if pattern not in used
        ],
        records.group_record(group.group_id, group.group_epoch + 1, digest),
    ]
