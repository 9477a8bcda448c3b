"""What a classic consumer group's leader assigns to a member (versions 0-3, all alike).

The bytes in SyncGroup begin with the version as two bytes, then this; opaque to the broker.
"""

from __future__ import annotations

from moldau.common.protocol.declare import Int32, Message, NullableBytes, String, Struct, array, message


@message(versions=(0, 3), flexible_from=None)
class ConsumerProtocolAssignment(Message):
    """A member's partitions."""

    assigned_partitions: list[TopicPartition] = array()
    user_data: NullableBytes = None


class TopicPartition(Struct):
    topic: String = ""
    partitions: list[Int32] = array()
