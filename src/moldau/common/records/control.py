"""Control records: the markers that end a transaction, written by the broker, not shown to consumers
(KIP-98).

    key:   | version 2 | type 2 (0 abort, 1 commit, 2 leader change, ...) |
    value: | version 2 | coordinator epoch 4 |      (for the two transaction markers)

Not here: transactions. The log reads the markers for producer state and the last stable offset.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from moldau.common.records.batch import TimestampType
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")

MARKER_BYTES = 78
"""The size of a batch that holds one transaction marker: all its fields have a fixed size."""


class ControlType(IntEnum):
    """The type of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction in this partition."""

    control_type: ControlType
    coordinator_epoch: int


def control_type(key: bytes | None) -> ControlType:
    """The type in this control record's key; UNKNOWN for unknown numbers."""
    if key is None or len(key) < _KEY.size:
        raise ValueError("a control record's key is too short")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise ValueError(f"a control record's key has version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return ControlType.UNKNOWN


def parse_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """The marker, or None for another control record. ValueError if damaged."""
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise ValueError("a transaction marker's value is too short")
    return EndTransactionMarker(kind, _VALUE.unpack_from(record.value)[1])


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that ends a transaction."""
    record = Record(
        base_offset, timestamp_ms, _KEY.pack(0, marker.control_type), _VALUE.pack(0, marker.coordinator_epoch)
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
        timestamp_type=TimestampType.CREATE_TIME,
    )
