"""Reads a partition for Fetch: the response row, and the log read with its errors mapped to error codes.

Not here: who may read, and up to which offset (partition.py).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.broker.log.log import CorruptSegment, Log, OffsetOutOfRange
from moldau.common.protocol.errors import ErrorCode

NO_RECORDS = b""
# A named tuple made this way costs a third of its constructor.
_new_tuple = tuple.__new__


class Read(NamedTuple):
    """One partition of a Fetch response; fields in the order in which they are encoded."""

    partition_index: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    """(producer id, first offset) of aborted transactions, for read_committed; else None."""
    records: bytes | memoryview = NO_RECORDS
    diverging: tuple[int, int] | None = None
    """For a reader whose history diverges: the diverging epoch, and its end offset here."""


def read_batches(
    source: Log,
    offset: int,
    bytes_max: int,
    end_offset: int,
    high_watermark: int,
    stable_offset: int,
    committed: bool,
    first: bool,
    failed: Callable[[OSError], None],
) -> Read:
    """Whole batches from the one that contains `offset`, all before `end_offset`; `first`: the first is
    returned whole, however large. `failed` is called on a disk error.
    """
    index, start_offset = source.partition, source.log_start_offset
    aborted: Sequence[tuple[int, int]] | None = () if committed else None
    records: bytes | memoryview = NO_RECORDS
    if bytes_max > 0 or first or not start_offset <= offset <= source.written_end_offset:
        try:
            records = source.reader.read(offset, bytes_max, end_offset=end_offset, min_one_batch=first)
            if committed and records:
                # Of what is returned, not of all that may be read: few or none.
                aborted = source.transactions.aborted_for_fetch(offset, source.reader.read_end)
        except OffsetOutOfRange:
            return Read(index, ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=start_offset)
        except CorruptSegment as error:
            source.note_damage(offset, error)
            return Read(index, ErrorCode.CORRUPT_MESSAGE)
        except OSError as error:
            failed(error)
            return Read(index, ErrorCode.KAFKA_STORAGE_ERROR)
    row = (index, 0, high_watermark, stable_offset, start_offset, aborted, records, None)
    return _new_tuple(Read, row)


def epoch_end(source: Log, present_epoch: int, epoch_start_offset: int, leader_epoch: int) -> tuple[int, int]:
    """The largest known leader epoch up to `leader_epoch`, and where it ended in a log whose partition is in
    `present_epoch`, which began at `epoch_start_offset`; (-1, -1) when unknown.

    The present epoch, which may have no records yet, ends where the log does (KIP-101, KIP-320).
    """
    latest, end_offset = source.latest_leader_epoch, source.written_end_offset
    if not 0 <= leader_epoch <= present_epoch:
        return -1, -1
    if leader_epoch == present_epoch:
        return leader_epoch, end_offset
    if leader_epoch >= latest:  # what came after the last record's epoch has no records
        return (latest if latest >= 0 else leader_epoch), min(epoch_start_offset, end_offset)
    epoch, end = source.epoch_end_offset(leader_epoch)
    return epoch, min(end, end_offset)
