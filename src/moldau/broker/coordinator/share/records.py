"""The records of `__share_group_state`, byte for byte as Kafka writes them.

key    | type 2 | group, topic id, partition |       type 0: snapshot, 1: update
value  | version 2 | ... |                            absent (null) with a snapshot's key: deleted
"""

import struct
from typing import NamedTuple

from moldau.broker.coordinator.share.state import Key, ShareState, StateBatch
from moldau.common.protocol.messages import share_state_records as formats

SNAPSHOT, UPDATE = 0, 1
_PREFIX = struct.Struct(">h")
_VERSION_0 = _PREFIX.pack(0)


class Update(NamedTuple):
    """What changed; start offset -1: unchanged."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    ended_count: int
    batches: tuple[StateBatch, ...]


class StateRecord(NamedTuple):
    """One record. `content` None: the state is deleted."""

    key: Key
    content: ShareState | Update | None
    at_ms: int = 0
    """When it is written."""


def encode(record: StateRecord) -> tuple[bytes, bytes | None]:
    """The bytes of key and value."""
    key, content, at_ms = record
    group_id, topic_id, partition = key
    if isinstance(content, Update):
        update_key = _PREFIX.pack(UPDATE) + formats.ShareUpdateKey(
            group_id=group_id, topic_id=topic_id, partition=partition
        ).encode(1)
        update = formats.ShareUpdateValue(
            snapshot_epoch=content.snapshot_epoch,
            leader_epoch=content.leader_epoch,
            start_offset=content.start_offset,
            delivery_complete_count=content.ended_count,
            state_batches=_rows(content.batches),
        )
        return update_key, _VERSION_0 + update.encode(0)
    snapshot_key = _PREFIX.pack(SNAPSHOT) + formats.ShareSnapshotKey(
        group_id=group_id, topic_id=topic_id, partition=partition
    ).encode(0)
    if content is None:
        return snapshot_key, None
    snapshot = formats.ShareSnapshotValue(
        snapshot_epoch=content.snapshot_epoch,
        state_epoch=content.state_epoch,
        leader_epoch=content.leader_epoch,
        start_offset=content.start_offset,
        delivery_complete_count=content.ended_count,
        create_timestamp=content.created_ms,
        write_timestamp=at_ms,
        state_batches=_rows(content.batches),
    )
    return snapshot_key, _VERSION_0 + snapshot.encode(0)


def decode(key: bytes, value: bytes | None) -> StateRecord | None:
    """The record that these bytes mean; None for a type that is not known. Raises MalformedMessage."""
    (type_id,) = _PREFIX.unpack_from(key)
    if type_id == UPDATE:
        if value is None:
            return None
        update = formats.ShareUpdateValue.decode(value[2:], 0)
        found = formats.ShareUpdateKey.decode(key[2:], 1)
        content = Update(
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            _batches(update.state_batches),
        )
        return StateRecord(Key(found.group_id, found.topic_id, found.partition), content)
    if type_id != SNAPSHOT:
        return None
    named = formats.ShareSnapshotKey.decode(key[2:], 0)
    share_partition = Key(named.group_id, named.topic_id, named.partition)
    if value is None:
        return StateRecord(share_partition, None)
    snapshot = formats.ShareSnapshotValue.decode(value[2:], 0)
    state = ShareState(
        snapshot.snapshot_epoch,
        snapshot.state_epoch,
        snapshot.leader_epoch,
        snapshot.start_offset,
        snapshot.delivery_complete_count,
        snapshot.create_timestamp,
        _batches(snapshot.state_batches),
    )
    return StateRecord(share_partition, state, snapshot.write_timestamp)


def _rows(batches: tuple[StateBatch, ...]) -> list[formats.StateBatch]:
    return [
        formats.StateBatch(
            first_offset=first, last_offset=last, delivery_state=state, delivery_count=deliveries
        )
        for first, last, state, deliveries in batches
    ]


def _batches(rows: list[formats.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count) for row in rows
    )
