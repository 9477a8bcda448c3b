"""Reads a segment batch by batch, checks each crc, at a limited rate.

A batch is handed on as `(header, data, start, end)`: `data[start:end]` are its bytes inside a larger piece of
the file, so that nothing is copied and Python's fast indexing of `bytes` is kept. Every batch's crc is
checked, also that of a batch which will be copied as it stands: damage must not be copied unnoticed.
"""

from collections.abc import Iterator
from typing import Protocol, TypeAlias

from moldau.broker.log.compaction.job import Source, Uncleanable
from moldau.common.core.crc import crc32c
from moldau.common.core.files import Files
from moldau.common.records.batch import CRC_START, HEADER, HEADER_BYTES, LENGTH_MIN, LENGTH_OVERHEAD, MAGIC

Batch: TypeAlias = tuple[tuple[int, ...], bytes, int, int]
BASE_OFFSET, LEADER_EPOCH, ATTRIBUTES, LAST_OFFSET_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP = 0, 2, 5, 6, 7, 8
PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT = 9, 10, 11, 12
"""The places of the fields in a header tuple."""


class Pace(Protocol):
    """Told of every piece of work; may delay it, and may end it by raising `Cancelled`."""

    def read(self, size_bytes: int) -> None:
        """So many bytes have been read."""

    def wrote(self, size_bytes: int) -> None:
        """So many bytes have been written."""


def read_batches(files: Files, path: str, source: Source, buffer_bytes: int, pace: Pace) -> Iterator[Batch]:
    """All batches of the segment, whose file is at `path`. `Uncleanable` where one is damaged, breaks off, or
    does not follow on the one before.
    """
    buffer_bytes = max(buffer_bytes, HEADER_BYTES)
    size_bytes, next_offset = source.size_bytes, source.base_offset
    fd = files.open(path)
    try:
        position, wanted = 0, buffer_bytes
        while position < size_bytes:
            data = files.pread(fd, min(wanted, size_bytes - position), position)
            at = 0
            for batch in _whole_batches(data, path, position):
                header = batch[0]
                base_offset, last_delta = header[BASE_OFFSET], header[LAST_OFFSET_DELTA]
                # The crc does not cover the offset.
                if (
                    base_offset < next_offset
                    or last_delta < 0
                    or base_offset + last_delta >= source.end_offset
                ):
                    raise Uncleanable(
                        f"{path}: the batch at position {position + at} has offset {base_offset}, which "
                        f"cannot be: it must lie from {next_offset} to {source.end_offset - 1}"
                    )
                next_offset = base_offset + last_delta + 1
                yield batch
                at = batch[3]
            if not at:
                wanted = _size_at(data, path, position, size_bytes)
                continue
            pace.read(at)
            position += at
            wanted = buffer_bytes
    finally:
        files.close(fd)


def _size_at(data: bytes, path: str, position: int, size_bytes: int) -> int:
    """The size of the batch at the beginning of `data`, which is longer than that."""
    if len(data) >= HEADER_BYTES:
        size: int = HEADER.unpack_from(data)[1] + LENGTH_OVERHEAD
        if len(data) < size <= size_bytes - position:
            return size
    raise Uncleanable(f"{path} breaks off inside the batch at position {position}")


def _whole_batches(data: bytes, path: str, position: int) -> Iterator[Batch]:
    """The batches that `data`, which begins with one, holds to their end."""
    view, end = memoryview(data), len(data)
    at = 0
    while at + HEADER_BYTES <= end:
        header = HEADER.unpack_from(data, at)
        length = header[1]
        if length < LENGTH_MIN or header[3] != MAGIC:
            raise Uncleanable(f"{path} has no batch at position {position + at}")
        batch_end = at + length + LENGTH_OVERHEAD
        if batch_end > end:
            return
        if crc32c(view[at + CRC_START : batch_end]) != header[4]:
            raise Uncleanable(
                f"{path}: the batch at position {position + at} (offset {header[0]}) has a wrong crc"
            )
        yield header, data, at, batch_end
        at = batch_end
