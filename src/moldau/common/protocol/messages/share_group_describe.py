"""ShareGroupDescribe (key 77, version 1): state, members and assignments of share groups (KIP-932). Version 0
was early access.
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Bool,
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
    struct,
)


@message(key=77, versions=(1, 1), flexible_from=0)
class ShareGroupDescribeRequest(Message):
    """The groups to describe."""

    group_ids: list[String] = array()
    include_authorized_operations: Bool = False


@response_to(ShareGroupDescribeRequest)
class ShareGroupDescribeResponse(Message):
    """Each group with its members."""

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
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = array()
    assignment: Assignment = struct()


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array()


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: list[Int32] = array()
