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
