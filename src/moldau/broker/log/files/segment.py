"""A segment: a stretch of the log in one file, with its indexes. Only the last segment of a log grows.

    00000000000000000042.log         batches, one after the other; 42 is the first offset it may hold
    00000000000000000042.index       offset -> position, every few kilobytes
    00000000000000000042.timeindex   timestamp -> offset
    00000000000000000042.txnindex    aborted transactions whose end is in this segment; mostly missing

`size_bytes` is what has been written and may be read; staged batches are not counted.

HOT: `read` and `descriptor`; budget with the reader (bench/hot_path.py). Measured: a positioned read costs
0.08 CPU seconds a gigabyte in pieces of 1 MiB and 0.8 microseconds for 168 bytes. Slices of a mapped file
would save 0.07 of that, but a disk error or a truncation under a mapped file kills the process with SIGBUS,
so segments are not mapped.

Not here: rolling, staging and rollback (appending/writer.py), what an unclean stop has left
(recovery/recovery.py).
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.index import OffsetIndex, TimeIndex
from moldau.broker.log.state.transaction_index import TransactionIndex
from moldau.common.core.files import Buffer, Files
from moldau.common.records.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchView,
)

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

RELATIVE_OFFSET_MAX = (1 << 31) - 1
"""An index stores offsets relative to the base offset in 31 bits."""

_WALK_WINDOW_BYTES = 16 * 1024
_ENTRIES_TRIED_MAX = 16


class CorruptSegment(Exception):
    """A batch that was written whole is no longer readable: the disk or another program has changed it."""


class BatchPlace(NamedTuple):
    """Where a batch stands, and what its header says."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp_ms: int
    header: tuple[int, ...]
    """All fields, in the order of `HEADER`."""


def file_name(base_offset: int, suffix: str) -> str:
    """Kafka's name of a segment's file: the base offset in twenty digits."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """One segment and its files."""

    __slots__ = (
        "_directory",
        "_files",
        "base_offset",
        "created_ms",
        "descriptors",
        "fd",
        "first_timestamp_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offset_index",
        "size_bytes",
        "synced_bytes",
        "time_index",
        "touched",
        "transaction_index",
    )

    def __init__(
        self, files: Files, directory: str, base_offset: int, descriptors: DescriptorLimit, created_ms: int
    ) -> None:
        """An object for a file that exists or that `create` makes; nothing is read."""
        self._files = files
        self._directory = directory
        self.descriptors = descriptors
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.fd = -1
        self.touched = False
        self.size_bytes = 0
        self.synced_bytes = 0
        self.first_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.offset_index = OffsetIndex(files, self.path(INDEX_SUFFIX))
        self.time_index = TimeIndex(files, self.path(TIME_INDEX_SUFFIX))
        self.transaction_index = TransactionIndex(files, self.path(TRANSACTION_INDEX_SUFFIX))

    @property
    def files(self) -> Files:
        """What its files are opened with."""
        return self._files

    def path(self, suffix: str) -> str:
        """The full name of the segment's file with this suffix."""
        return f"{self._directory}/{file_name(self.base_offset, suffix)}"

    def moved_to(self, directory: str) -> None:
        """The log's directory has been renamed: take the new name; files are opened again when needed."""
        self.close_descriptor()
        self._directory = directory
        self.offset_index.path = self.path(INDEX_SUFFIX)
        self.time_index.path = self.path(TIME_INDEX_SUFFIX)
        self.transaction_index.path = self.path(TRANSACTION_INDEX_SUFFIX)

    # -- the file ----------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the empty log file; whatever a crash has left under these names goes."""
        for suffix in SEGMENT_SUFFIXES[1:]:
            self._files.remove(self.path(suffix))
        self.fd = self._files.open(self.path(LOG_SUFFIX), create=True, truncate=True)
        self.descriptors.opened(self)

    def descriptor(self) -> int:
        """The open descriptor of the log file."""
        self.touched = True
        if self.fd < 0:
            self.fd = self._files.open(self.path(LOG_SUFFIX))
            self.descriptors.opened(self)
        return self.fd

    def release_descriptor(self) -> None:
        """Close the descriptor because others need one."""
        self.offset_index.release_memory()
        self.time_index.release_memory()
        self.transaction_index.release_memory()
        fd, self.fd = self.fd, -1
        if fd >= 0:
            self._files.close(fd)

    def close_descriptor(self) -> None:
        """Close the descriptor for good or for a while."""
        self.descriptors.closed(self)
        self.release_descriptor()

    def read(self, position: int, size_bytes: int) -> bytes:
        """Bytes of the log file; shorter only where the file ends."""
        return self._files.pread(self.fd if self.fd >= 0 else self.descriptor(), size_bytes, position)

    def write(self, buffers: list[Buffer], size_bytes: int, position: int) -> None:
        """Write all of the buffers (together `size_bytes`), however many calls that takes; OSError when it
        cannot be.
        """
        fd = self.fd if self.fd >= 0 else self.descriptor()
        if len(buffers) == 1:
            written = self._files.pwrite(fd, buffers[0], position)
        else:
            written = self._files.pwritev(fd, buffers, position)
        if written == size_bytes:
            return
        rest = memoryview(b"".join(buffers))[written:]
        while rest:
            position += written
            written = self._files.pwrite(fd, rest, position)
            rest = rest[written:]

    def cut(self, size_bytes: int) -> None:
        """Cut the log file to this size."""
        self._files.truncate(self.descriptor(), size_bytes)
        self.size_bytes = size_bytes
        self.synced_bytes = min(self.synced_bytes, size_bytes)

    def sync(self) -> None:
        """Force the log file to the disk, here and now."""
        size_bytes = self.size_bytes
        self._files.sync(self.descriptor())
        self.synced_bytes = size_bytes

    # -- walking -----------------------------------------------------------------------------------

    def walk(self, position: int, stop: int | None = None) -> Iterator[BatchPlace]:
        """The batches from `position` on, by their headers alone; CorruptSegment where a header cannot be."""
        end = self.size_bytes if stop is None else stop
        window, window_start = b"", 0
        while position + HEADER_BYTES <= end:
            at = position - window_start
            if at + HEADER_BYTES > len(window):
                window, window_start, at = self.read(position, _WALK_WINDOW_BYTES), position, 0
                if len(window) < HEADER_BYTES:
                    raise CorruptSegment(
                        f"{self.path(LOG_SUFFIX)} is shorter than it was: it ends before {position}"
                    )
            header = HEADER.unpack_from(window, at)
            length = header[1]
            if length < LENGTH_MIN or header[3] != MAGIC:
                raise CorruptSegment(f"{self.path(LOG_SUFFIX)} has no batch at position {position}")
            size = length + LENGTH_OVERHEAD
            yield BatchPlace(position, size, header[0], header[0] + header[6], header[2], header[8], header)
            position += size

    def batch_at(self, place: BatchPlace) -> BatchView:
        """The whole batch at this place."""
        return BatchView(self.read(place.position, place.size_bytes))

    def find(self, offset: int) -> BatchPlace | None:
        """The first batch that ends at or after `offset`: the one that contains it, where there is one."""
        found = self.locate(offset)
        return None if found is None else found[0]

    def locate(self, offset: int) -> tuple[BatchPlace, int] | None:
        """As `find`, with the offset behind the batch before it, or of the segment's beginning."""
        entry = self.offset_index.floor_key(max(0, offset - self.base_offset))
        tried = 0
        while True:
            try:
                found = self._find_from(entry[1] if entry else 0, offset, certain=entry is None)
                if (
                    not entry
                    or not found
                    or (entry[1] < found[0].position and found[0].base_offset <= offset)
                ):
                    return found
                # The first batch of the walk, or one behind a gap: a damaged base offset shows by the batch
                # before it, so begin earlier.
                before = self.offset_index.floor_key(entry[0] - 1) if entry[0] else None
                return self._find_from(before[1] if before else 0, offset, certain=before is None)
            except CorruptSegment:
                if entry is None:
                    raise
            # The index entry is wrong: it leads behind the offset, or to no batch. An earlier entry may be
            # good.
            tried += 1
            entry = (
                self.offset_index.floor_key(entry[0] - 1) if tried < _ENTRIES_TRIED_MAX and entry[0] else None
            )

    def _find_from(self, position: int, offset: int, *, certain: bool) -> tuple[BatchPlace, int] | None:
        """As `locate`, from this position on; CorruptSegment when it lies behind the offset and is not
        `certain` to be right, or a batch begins before the end of the one before it.
        """
        next_offset = self.base_offset
        for place in self.walk(position):
            if place.base_offset < next_offset:
                where = f"{self.path(LOG_SUFFIX)}, position {place.position}"
                raise CorruptSegment(
                    f"{where}: offset {place.base_offset} after {next_offset - 1}; one of the two is wrong"
                )
            if place.base_offset > offset and place.position == position and not certain:
                raise CorruptSegment(f"{self.path(INDEX_SUFFIX)} leads behind offset {offset}")
            if place.last_offset >= offset:
                if place.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
                    where = f"{self.path(LOG_SUFFIX)}, position {place.position}"
                    raise CorruptSegment(f"{where}: a batch claims offset {place.last_offset}")
                return place, next_offset
            next_offset = place.last_offset + 1
        return None

    # -- indexes -----------------------------------------------------------------------------------

    def add_index_entry(
        self, last_offset: int, position: int, max_timestamp_ms: int, max_timestamp_offset: int
    ) -> None:
        """Note where the batch that ends with `last_offset` begins, and the largest timestamp up to and with
        it.
        """
        index = self.offset_index
        index.append(last_offset - self.base_offset, position)
        self.add_time_entry(max_timestamp_ms, max_timestamp_offset)

    def add_time_entry(self, max_timestamp_ms: int, max_timestamp_offset: int) -> None:
        """Note the largest timestamp so far, when it has grown since the last note."""
        last = self.time_index.last()
        if max_timestamp_ms >= 0 and (last is None or max_timestamp_ms > last[0]):
            self.time_index.append(max_timestamp_ms, max_timestamp_offset - self.base_offset)

    def write_indexes(self, *, sync: bool = False) -> None:
        """Bring the index files up to date."""
        self.transaction_index.write(sync=sync)
        self.offset_index.write(sync=sync)
        self.time_index.write(sync=sync)

    @property
    def has_unwritten_indexes(self) -> bool:
        """Whether index entries are in memory only (also after a roll, when the disk was full then)."""
        return bool(
            self.offset_index.tail_entries
            or self.time_index.tail_entries
            or self.transaction_index.tail_entries
        )

    def finish(self) -> None:
        """The segment stops growing, or the log closes: the last timestamp is noted, the indexes are
        written.
        """
        self.add_time_entry(self.max_timestamp_ms, self.max_timestamp_offset)
        self.write_indexes()

    # -- the end -----------------------------------------------------------------------------------

    def rename_to_deleted(self) -> list[str]:
        """Take the files out of the log by name; returns the names to be removed later."""
        self.close_descriptor()
        renamed: list[str] = []
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            if self._files.exists(path):
                self._files.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed

    def remove(self) -> None:
        """Remove the files at once."""
        self.close_descriptor()
        for suffix in SEGMENT_SUFFIXES:
            self._files.remove(self.path(suffix))

    def __repr__(self) -> str:
        return f"Segment({os.path.basename(self.path(LOG_SUFFIX))}, {self.size_bytes} bytes)"
