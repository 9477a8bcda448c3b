"""Reads the files of a data directory into rows, which command.py prints; one reader for each kind of file.

A segment is mapped, so its size does not matter. Reading continues after a batch with a wrong crc, and stops
at a batch whose length is impossible: the start of the next one is then unknown.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moldau.broker.log.state.snapshots import decode_snapshot
from moldau.broker.metadata.embedded import FILE_NAME as METADATA_NAME
from moldau.common.records.batch import HEADER_BYTES, BatchView, CorruptBatch, TimestampType, batch_size_bytes
from moldau.common.records.control import control_type, parse_end_transaction_marker
from moldau.common.records.readability import fault_of
from moldau.common.records.record import Record

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
OFFSET_INDEX_ENTRY = struct.Struct(">II")
TIME_INDEX_ENTRY = struct.Struct(">qI")
TRANSACTION_INDEX_ENTRY = struct.Struct(">hqqqq")

Decoder = Callable[[Record], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Content:
    """How much of the records to read."""

    records: bool = False
    payload: bool = False
    decoder: Decoder | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line: its kind (batch, record, index, producer, checkpoint, damage) and named fields."""

    kind: str
    fields: dict[str, Any]
    damaged: bool = False


def is_known(path: Path) -> bool:
    """Whether files of this name are in data directories."""
    # Moldau's metadata is framed in its own way: read as a segment, it would look damaged.
    return (path.suffix in _BY_SUFFIX or path.name in _BY_NAME) and path.name != METADATA_NAME


def dump_file(path: Path, content: Content) -> Iterator[Row]:
    """Return the rows of one file. Raises OSError."""
    reader = _BY_NAME.get(path.name) or _BY_SUFFIX[path.suffix]
    return reader(path, content)


def dump_segment(path: Path, content: Content) -> Iterator[Row]:
    """Yield a row for each batch of a segment, followed by its records if they are wanted."""
    yield Row("segment", {"Log starting offset": _base_offset(path)})
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        position = 0
        while position < len(mapped):
            try:
                if len(mapped) - position < HEADER_BYTES:
                    raise CorruptBatch(f"{len(mapped) - position} bytes are left, fewer than a header")
                size = batch_size_bytes(mapped[position : position + HEADER_BYTES], 0)
                if position + size > len(mapped):
                    raise CorruptBatch(f"a batch of {size} bytes breaks off after {len(mapped) - position}")
                batch = BatchView(mapped[position : position + size])
            except CorruptBatch as problem:
                fields = {
                    "position": position,
                    "damaged": str(problem),
                    "unread bytes": len(mapped) - position,
                }
                yield Row("damage", fields, damaged=True)
                return
            yield _batch_row(batch, position)
            if content.records:
                yield from _record_rows(batch, content)
            elif batch.crc_is_valid() and (fault := fault_of(batch)):
                yield _unreadable_row(batch, fault)
            position += size


def _batch_row(batch: BatchView, position: int) -> Row:
    valid = batch.crc_is_valid()
    horizon = batch.delete_horizon_ms
    fields = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence if batch.base_sequence >= 0 else -1,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        "position": position,
        _timestamp_name(batch): batch.max_timestamp_ms,
        "size": batch.size_bytes,
        "magic": batch.magic,
        "compresscodec": CODEC_NAMES[batch.codec]
        if batch.codec < len(CODEC_NAMES)
        else f"unknown {batch.codec}",
        "crc": batch.crc,
        "isvalid": valid,
    }
    return Row("batch", fields, damaged=not valid)


def _timestamp_name(batch: BatchView) -> str:
    return "LogAppendTime" if batch.timestamp_type == TimestampType.LOG_APPEND_TIME else "CreateTime"


def _record_rows(batch: BatchView, content: Content) -> Iterator[Row]:
    try:
        for record in batch.records():
            yield Row("record", _record_fields(batch, record, content))
    except CorruptBatch as problem:
        yield _unreadable_row(batch, str(problem))


def _unreadable_row(batch: BatchView, fault: str) -> Row:
    return Row("damage", {"records of baseOffset": batch.base_offset, "damaged": fault}, damaged=True)


def _record_fields(batch: BatchView, record: Record, content: Content) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "offset": record.offset,
        _timestamp_name(batch): record.timestamp_ms,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": -1
        if batch.base_sequence < 0
        else batch.base_sequence + record.offset - batch.base_offset,
        "headerKeys": f"[{','.join(name for name, _ in record.headers)}]",
    }
    if batch.is_control:
        fields |= _control_fields(record)
    if not content.payload:
        return fields
    if content.decoder is not None and not batch.is_control:
        return fields | content.decoder(record)
    if record.key is not None:
        fields["key"] = bytes(record.key)
    if record.value is not None:
        fields["payload"] = bytes(record.value)
    return fields


def _control_fields(record: Record) -> dict[str, Any]:
    """Return what a transaction marker holds; of other control records their type."""
    try:
        marker = parse_end_transaction_marker(record)
        if marker is None:
            return {"controlType": control_type(record.key).name}
    except ValueError as problem:
        return {"damaged": str(problem)}
    return {"endTxnMarker": marker.control_type.name, "coordinatorEpoch": marker.coordinator_epoch}


def dump_offset_index(path: Path, content: Content) -> Iterator[Row]:
    """Yield the entries of an offset index, each checked against the segment beside it."""
    base_offset = _base_offset(path)
    batches = _batch_places(path.with_suffix(".log"))
    for index, (relative, position) in enumerate(
        OFFSET_INDEX_ENTRY.iter_unpack(_whole(path, OFFSET_INDEX_ENTRY))
    ):
        if index and not relative:
            # Kafka keeps the index of the segment in use at its full size, filled up with zeros.
            return
        fields: dict[str, Any] = {"offset": base_offset + relative, "position": position}
        holds = batches is None or base_offset + relative in batches.get(position, range(0))
        if not holds:
            fields["damaged"] = "no batch with this offset begins there"
        yield Row("index", fields, damaged=not holds)


def dump_time_index(path: Path, content: Content) -> Iterator[Row]:
    """Yield the entries of a time index."""
    base_offset = _base_offset(path)
    for index, (timestamp_ms, relative) in enumerate(
        TIME_INDEX_ENTRY.iter_unpack(_whole(path, TIME_INDEX_ENTRY))
    ):
        if index and not timestamp_ms:
            return
        yield Row("index", {"timestamp": timestamp_ms, "offset": base_offset + relative})


def dump_transaction_index(path: Path, content: Content) -> Iterator[Row]:
    """Yield the aborted transactions of a segment."""
    for version, producer_id, first, last, stable in TRANSACTION_INDEX_ENTRY.iter_unpack(
        _whole(path, TRANSACTION_INDEX_ENTRY)
    ):
        yield Row(
            "index",
            {
                "version": version,
                "producerId": producer_id,
                "firstOffset": first,
                "lastOffset": last,
                "lastStableOffset": stable,
            },
        )


def dump_snapshot(path: Path, content: Content) -> Iterator[Row]:
    """Yield the producers of a snapshot."""
    try:
        states = decode_snapshot(path.read_bytes())
    except ValueError as problem:
        yield Row("damage", {"damaged": str(problem)}, damaged=True)
        return
    for producer_id, state in sorted(states.items()):
        yield Row(
            "producer",
            {
                "producerId": producer_id,
                "producerEpoch": state.producer_epoch,
                "coordinatorEpoch": state.coordinator_epoch,
                "currentTxnFirstOffset": state.transaction_first_offset,
                "lastTimestamp": state.last_timestamp_ms,
                "lastSequence": state.last_sequence,
                "lastOffset": state.last_offset,
            },
        )


def dump_text(path: Path, content: Content) -> Iterator[Row]:
    """Yield the lines of a checkpoint or property file."""
    for number, line in enumerate(path.read_text("utf-8", "backslashreplace").splitlines(), start=1):
        yield Row("checkpoint", {f"line {number}": line})


def _base_offset(path: Path) -> int:
    return int(path.stem) if path.stem.isdigit() else 0


def _whole(path: Path, entry: struct.Struct) -> bytes:
    """Return a file's bytes without an incomplete entry at its end."""
    data = path.read_bytes()
    return data[: len(data) - len(data) % entry.size]


def _batch_places(path: Path) -> dict[int, range] | None:
    """Return the position of each batch in a segment and its offsets; None without the segment."""
    if not path.exists():
        return None
    return {
        row.fields["position"]: range(row.fields["baseOffset"], row.fields["lastOffset"] + 1)
        for row in dump_segment(path, Content())
        if row.kind == "batch"
    }


_Reader = Callable[[Path, Content], Iterator[Row]]
_BY_SUFFIX: dict[str, _Reader] = {
    ".log": dump_segment,
    ".index": dump_offset_index,
    ".timeindex": dump_time_index,
    ".txnindex": dump_transaction_index,
    ".snapshot": dump_snapshot,
}
_BY_NAME: dict[str, _Reader] = dict.fromkeys(
    (
        "leader-epoch-checkpoint",
        "partition.metadata",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ),
    dump_text,
)
