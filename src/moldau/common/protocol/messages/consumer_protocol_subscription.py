"""What a classic consumer sends along when it joins: topics and the partitions it owns (versions 0-3).

    v1   owned_partitions (cooperative rebalancing, KIP-429)
    v2   generation_id (KIP-792)
    v3   rack_id (KIP-881)

The bytes in JoinGroup begin with the version as two bytes, then this. New versions only add fields at the
end, so a newer one can be read as the newest known by whoever strips what is left over; `decode` itself
insists on an exact fit. To the broker the bytes are opaque, except where it must know a group's topics
(OffsetDelete, the upgrade to a KIP-848 group).
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int32,
    Message,
    NullableBytes,
    NullableString,
    String,
    Struct,
    array,
    message,
    since,
)


@message(versions=(0, 3), flexible_from=None)
class ConsumerProtocolSubscription(Message):
    """A member's wishes, opaque to the broker in the classic protocol."""

    topics: list[String] = array()
    user_data: NullableBytes = None
    owned_partitions: list[TopicPartition] = since(1, ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: NullableString = since(3, default=None, ignorable=True)


class TopicPartition(Struct):
    topic: String = since(1)
    partitions: list[Int32] = since(1)
