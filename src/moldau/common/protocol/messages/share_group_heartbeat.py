"""ShareGroupHeartbeat (key 76, version 1): a member of a share group (KIP-932) says that it is alive and
what it subscribes to. Version 0 was early access.
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
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
)


@message(key=76, versions=(1, 1), flexible_from=0)
class ShareGroupHeartbeatRequest(Message):
    """The member's epoch (0 joins, -1 leaves); null rack and topics are as before. The client makes up its
    member id."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: NullableString = None
    subscribed_topic_names: list[String] | None = None


@response_to(ShareGroupHeartbeatRequest)
class ShareGroupHeartbeatResponse(Message):
    """The member's epoch and, if it changed, its assignment."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array()


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = array()
