"""ConsumerGroupDescribe (key 69, versions 0-1): state, members and assignments of KIP-848 groups.

v1   answer: member_type (-1 unknown, 0 classic, 1 consumer)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    message,
    response_to,
    since,
    struct,
)


@message(key=69, versions=(0, 1), flexible_from=0)
class ConsumerGroupDescribeRequest(Message):
    """The groups to describe."""

    group_ids: list[String] = array()
    include_authorized_operations: Bool = False


@response_to(ConsumerGroupDescribeRequest)
class ConsumerGroupDescribeResponse(Message):
    """Each group with its members' current and target assignments."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = array()


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = array()
    authorized_operations: Int32 = -2147483648


class Member(Struct):
    member_id: String = ""
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = array()
    subscribed_topic_regex: NullableString = None
    assignment: Assignment = struct()
    target_assignment: Assignment = struct()
    member_type: Int8 = since(1, default=-1, ignorable=True)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array()


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: list[Int32] = array()
