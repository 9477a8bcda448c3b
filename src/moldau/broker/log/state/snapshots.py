"""Producer snapshots: the producers' state at an offset, so that a restart need not read the whole log.

    00000000000000001234.snapshot
    | version 2 | crc 4 | count 4 | per producer: producer id 8, epoch 2, last sequence 4, last offset 8,
      offset delta 4, timestamp 8, coordinator epoch 4, first offset of the open transaction 8 |

The crc (crc32c) covers what follows it. A snapshot holds a producer's last batch only, as in Kafka: after a
restart only that one is recognized when it is repeated. One is written when a segment rolls and when the log
closes.
"""

import logging
import struct

from moldau.broker.log.files.segment import SNAPSHOT_SUFFIX, file_name
from moldau.broker.log.state.producers import ProducerBatch, ProducerState
from moldau.common.core.crc import crc32c
from moldau.common.core.files import Files, read_file, write_atomically
from moldau.common.records.batch import NO_SEQUENCE

_HEAD = struct.Struct(">hII")
_CRC_START = 6
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1

logger = logging.getLogger("moldau.log.snapshots")


def encode_snapshot(states: dict[int, ProducerState]) -> bytes:
    """The file's bytes."""
    body = bytearray(struct.pack(">I", len(states)))
    for producer_id, state in states.items():
        offset_delta = state.batches[-1].last_offset - state.batches[-1].base_offset if state.batches else 0
        body += _ENTRY.pack(
            producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.last_offset,
            offset_delta,
            state.last_timestamp_ms,
            state.coordinator_epoch,
            state.transaction_first_offset,
        )
    return struct.pack(">hI", _VERSION, crc32c(body)) + bytes(body)


def decode_snapshot(data: bytes) -> dict[int, ProducerState]:
    """The states; ValueError when the file is damaged."""
    if len(data) < _HEAD.size:
        raise ValueError(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"a producer snapshot of version {version} cannot be read")
    if crc32c(memoryview(data)[_CRC_START:]) != crc:
        raise ValueError("the producer snapshot's crc is wrong")
    if len(data) - _HEAD.size != count * _ENTRY.size:
        raise ValueError(f"{count} producers do not fit the {len(data)} bytes of the snapshot")
    states: dict[int, ProducerState] = {}
    for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        (
            producer_id,
            producer_epoch,
            last_sequence,
            last_offset,
            delta,
            timestamp_ms,
            coordinator_epoch,
            first,
        ) = fields
        batches: tuple[ProducerBatch, ...] = ()
        if last_offset >= 0:
            # Batches that a coordinator wrote have no numbers.
            numbered = last_sequence != NO_SEQUENCE
            base_sequence = (last_sequence - delta) & 0x7FFFFFFF if numbered else NO_SEQUENCE
            batches = (
                ProducerBatch(base_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms),
            )
        states[producer_id] = ProducerState(
            producer_epoch, last_sequence, last_offset, timestamp_ms, coordinator_epoch, first, batches
        )
    return states


def write_snapshot(files: Files, directory: str, offset: int, states: dict[int, ProducerState]) -> None:
    """Write the snapshot for this offset. It is checked by its crc when read, so it need not be synced."""
    path = f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
    write_atomically(files, path, encode_snapshot(states), sync=False)


def load_latest_snapshot(
    files: Files, directory: str, offsets: list[int], offset_max: int
) -> tuple[int, dict[int, ProducerState]] | None:
    """The newest snapshot at or below `offset_max` that can be read; damaged ones are removed on the way."""
    for offset in sorted((offset for offset in offsets if offset <= offset_max), reverse=True):
        path = f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
        try:
            return offset, decode_snapshot(read_file(files, path))
        except FileNotFoundError:
            continue
        except ValueError as error:
            logger.warning("%s is removed: %s", path, error)
            files.remove(path)
    return None
