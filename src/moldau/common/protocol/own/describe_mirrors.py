"""DescribeMirrors (key 21001, version 0): links to other clusters, their topics here, and how far the
partitions are that the asked broker leads. Moldau's own; who wants all partitions asks all brokers.
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Float64,
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    field,
    message,
    response_to,
)


@message(key=21001, versions=(0, 0), flexible_from=0)
class DescribeMirrorsRequest(Message):
    """Which links (null: all)."""

    links: list[String] | None = field(nullable_since=0)


@response_to(DescribeMirrorsRequest)
class DescribeMirrorsResponse(Message):
    """The links that the client may see."""

    error_code: Int16 = 0
    error_message: NullableString = field(nullable_since=0)
    links: list[LinkData] = array()


class LinkData(Struct):
    name: String = ""
    problem: String = ""
    settings: list[LinkSetting] = array()
    topics: list[MirrorTopicData] = array()
    groups: list[MirrorGroupData] = array()


class MirrorGroupData(Struct):
    """`offset`: what was committed here; -1: nothing, since the group has members."""

    group_id: String = ""
    topic: String = ""
    partition: Int32 = 0
    source_offset: Int64 = -1
    offset: Int64 = -1


class LinkSetting(Struct):
    name: String = ""
    value: NullableString = field(nullable_since=0)


class MirrorTopicData(Struct):
    name: String = ""
    source: String = ""
    source_id: Uuid = bytes(16)
    state: String = ""
    reason: String = ""
    partition_count: Int32 = 0
    left: list[Int32] = array()
    partitions: list[MirrorPartitionData] = array()


class MirrorPartitionData(Struct):
    """`lost_seconds`: how long ago all that the source had was here; -1: it never was."""

    partition: Int32 = 0
    doing: String = ""
    problem: String = ""
    source_leader: Int32 = -1
    source_high_watermark: Int64 = -1
    start_offset: Int64 = -1
    end_offset: Int64 = -1
    stable_offset: Int64 = -1
    open_transactions: Int32 = 0
    lost_seconds: Float64 = -1.0
    lost_records: Int64 = 0
    missed_records: Int64 = 0
