"""What a Fetch request gets of a partition, and the read itself: errors of the log become error codes.

Not here: who may read, and up to where (partition.py).
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.log.log import CorruptSegment, Log, OffsetOutOfRange
from moldau.protocol.errors import ErrorCode

log = logging.getLogger("moldau.replication")

NO_RECORDS = b""
# A named tuple made this way costs a third of its constructor.
_new_tuple = tuple.__new__


class Read(NamedTuple):
    """A row of a Fetch answer, in the order in which it is encoded, and what only some are told."""

    partition_index: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    """(producer id, first offset) of transactions to be left out, for who reads committed records only."""
    records: bytes | memoryview = NO_RECORDS
    diverging: tuple[int, int] | None = None
    """For a reader whose history differs: the last epoch that may be common, and where it ends here."""


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
    """Batches from the one on that contains `offset`, all before `end_offset`; `first`: one is given whole,
    however large. `failed` is told when the disk fails.
    """
    index, start_offset = source.partition, source.log_start_offset
    aborted: Sequence[tuple[int, int]] | None = () if committed else None
    records: bytes | memoryview = NO_RECORDS
    if bytes_max > 0 or first or not start_offset <= offset <= source.log_end_offset:
        try:
            records = source.read(offset, bytes_max, end_offset=end_offset, min_one_batch=first)
            if committed and records:
                # Of what is returned, not of all that may be read: few or none.
                aborted = source.transactions.aborted_for_fetch(offset, source.read_end_offset)
        except OffsetOutOfRange:
            return Read(index, ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=start_offset)
        except CorruptSegment as error:
            log.error("%s-%d cannot be read at offset %d: %s", source.topic, index, offset, error)
            return Read(index, ErrorCode.CORRUPT_MESSAGE)
        except OSError as error:
            failed(error)
            return Read(index, ErrorCode.KAFKA_STORAGE_ERROR)
    row = (index, 0, high_watermark, stable_offset, start_offset, aborted, records, None)
    return _new_tuple(Read, row)
