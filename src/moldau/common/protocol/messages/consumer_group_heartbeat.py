"""ConsumerGroupHeartbeat (key 68, versions 0-1): a member of a KIP-848 group says that it is alive, what it
wants and what it has.

    v1   subscribed_topic_regex; the client makes up its member id
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
    since,
)


@message(key=68, versions=(0, 1), flexible_from=0)
class ConsumerGroupHeartbeatRequest(Message):
    """The member's epoch (0 joins, -1 leaves, -2 leaves for a while as a static member) and what changed
    since the last heartbeat."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: NullableString = since(1, default=None)
    server_assignor: NullableString = None
    topic_partitions: list[TopicPartitions] | None = None


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = array()


@response_to(ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse(Message):
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
