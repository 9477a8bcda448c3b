"""OffsetDelete (key 47, version 0): delete a group's committed offsets of topics that it no longer
subscribes to."""

from __future__ import annotations

from moldau.common.protocol.declare import Int16, Int32, Message, String, Struct, array, message, response_to


@message(key=47, versions=(0, 0), flexible_from=None)
class OffsetDeleteRequest(Message):
    """The group and partitions."""

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = array()


class OffsetDeleteRequestTopic(Struct):
    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = array()


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


@response_to(OffsetDeleteRequest)
class OffsetDeleteResponse(Message):
    """An error code for each partition."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = array()


class OffsetDeleteResponseTopic(Struct):
    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = array()


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
