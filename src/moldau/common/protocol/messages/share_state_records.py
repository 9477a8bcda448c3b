"""What stands in `__share_group_state`: snapshots of share-partitions, and updates since (KIP-932), byte for
byte as Kafka writes them.

A key is `| record type 2 | key |`, a value `| version 2 | value |`; a null value deletes.

    type  key               value written in
    0     ShareSnapshotKey  0
    1     ShareUpdateKey    0
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
    array,
    message,
    tagged,
)


@message(key=0, versions=(0, 0), flexible_from=None)
class ShareSnapshotKey(Message):
    """Which share-partition."""

    group_id: String = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@message(versions=(0, 0), flexible_from=0)
class ShareSnapshotValue(Message):
    """The whole state of a share-partition. Start offset -1: not chosen yet; `delivery_complete_count` -1:
    not known. Timestamps in milliseconds."""

    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = tagged(0, default=-1)
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: list[StateBatch] = array()


class StateBatch(Struct):
    """Offsets, both inclusive. Delivery state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@message(key=1, versions=(1, 1), flexible_from=None)
class ShareUpdateKey(Message):
    """Which share-partition."""

    group_id: String = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@message(versions=(0, 0), flexible_from=0)
class ShareUpdateValue(Message):
    """What changed since the snapshot of this epoch and the updates behind it; start offset -1: unchanged."""

    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = tagged(0, default=-1)
    state_batches: list[StateBatch] = array()
