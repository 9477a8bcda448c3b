"""Writes a cleaned segment: the log file with its three indexes, under names that the log does not use yet.

    00000000000000000042.log.cleaned   .index.cleaned   .timeindex.cleaned   .txnindex.cleaned (rarely)

Its size is known only when it is written. So what becomes one segment is decided on the way: a source joins
as long as it would fit even if nothing of it went (Kafka adds up the sources' own sizes; a log that shrinks a
lot comes down to few segments at once this way). The offsets of a segment must also fit 31 bits.
"""

from moldau.broker.log.compaction.job import CLEANED_SUFFIX, CleanJob, Group, Source
from moldau.broker.log.compaction.source import BASE_OFFSET, LAST_OFFSET_DELTA, Pace
from moldau.broker.log.files.index import OffsetIndex, TimeIndex
from moldau.broker.log.files.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from moldau.broker.log.state.transaction_index import AbortedTransaction, TransactionIndex
from moldau.common.core.files import Buffer, Files, write_fully
from moldau.common.records.batch import (
    ATTRIBUTES,
    BASE_TIMESTAMP_OFFSET,
    CRC_START,
    DELETE_HORIZON,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_OFFSET,
    NO_TIMESTAMP,
)

_RELATIVE_OFFSET_MAX = (1 << 31) - 1


class CleanedSegment:
    """One group's segment while it is written."""

    def __init__(self, files: Files, job: CleanJob, first: Source, pace: Pace) -> None:
        """Begin the segment that replaces `first`, and perhaps its neighbours; old left-overs go."""
        self._files = files
        self._job = job
        self._pace = pace
        self.base_offset = first.base_offset
        self.sources: list[Source] = []
        self.size_bytes = 0
        self._pending = bytearray()
        self._since_index = 0
        self._max_timestamp_ms = NO_TIMESTAMP
        self._max_timestamp_offset = first.base_offset
        self._delete_horizon_ms = NO_TIMESTAMP
        for suffix in SEGMENT_SUFFIXES:
            files.remove(self.path(suffix))
        self._offset_index = OffsetIndex(files, self.path(INDEX_SUFFIX))
        self._time_index = TimeIndex(files, self.path(TIME_INDEX_SUFFIX))
        self._transaction_index = TransactionIndex(files, self.path(TRANSACTION_INDEX_SUFFIX))
        self._fd = files.open(self.path(LOG_SUFFIX), create=True, truncate=True)

    def path(self, suffix: str) -> str:
        """The name under which the file with this suffix is written."""
        return f"{self._job.directory}/{file_name(self.base_offset, suffix)}{CLEANED_SUFFIX}"

    # -- which sources -----------------------------------------------------------------------------

    def has_room_for(self, source: Source) -> bool:
        """Whether the source may join, even if nothing of it goes."""
        job = self._job
        index_bytes = len(self._offset_index) * OffsetIndex.ENTRY.size
        time_index_bytes = len(self._time_index) * TimeIndex.ENTRY.size
        return (
            self.size_bytes + source.size_bytes <= job.segment_bytes
            and index_bytes + self._source_bytes(source, INDEX_SUFFIX) <= job.segment_index_bytes
            and time_index_bytes + self._source_bytes(source, TIME_INDEX_SUFFIX) <= job.segment_index_bytes
            and source.end_offset - 1 - self.base_offset <= _RELATIVE_OFFSET_MAX
        )

    def _source_bytes(self, source: Source, suffix: str) -> int:
        try:
            return self._files.file_size_bytes(
                f"{self._job.directory}/{file_name(source.base_offset, suffix)}"
            )
        except FileNotFoundError:
            return 0

    # -- writing -----------------------------------------------------------------------------------

    def append(self, header: tuple[int, ...], batch: Buffer) -> None:
        """Add the batch: `header` gives the offsets, the bytes themselves (perhaps rewritten) the rest."""
        last_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
        timestamp_ms: int = MAX_TIMESTAMP.unpack_from(batch, MAX_TIMESTAMP_OFFSET)[0]
        if timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms, self._max_timestamp_offset = timestamp_ms, last_offset
        if self._since_index > self._job.index_interval_bytes:
            self._offset_index.append(last_offset - self.base_offset, self.size_bytes)
            self._add_time_entry()
            self._since_index = 0
        if ATTRIBUTES.unpack_from(batch, CRC_START)[0] & DELETE_HORIZON:
            horizon_ms: int = MAX_TIMESTAMP.unpack_from(batch, BASE_TIMESTAMP_OFFSET)[0]
            if self._delete_horizon_ms == NO_TIMESTAMP or horizon_ms < self._delete_horizon_ms:
                self._delete_horizon_ms = horizon_ms
        size = len(batch)
        self._since_index += size
        self.size_bytes += size
        self._pending += batch
        if len(self._pending) >= self._job.io_buffer_bytes:
            self._write_pending()

    def add_aborted(self, entry: AbortedTransaction) -> None:
        """Note an aborted transaction whose marker is in this segment."""
        self._transaction_index.append(entry)

    def _add_time_entry(self) -> None:
        last = self._time_index.last()
        if self._max_timestamp_ms >= 0 and (last is None or self._max_timestamp_ms > last[0]):
            self._time_index.append(self._max_timestamp_ms, self._max_timestamp_offset - self.base_offset)

    def _write_pending(self) -> None:
        pending, self._pending = self._pending, bytearray()
        self._pace.wrote(len(pending))
        write_fully(self._files, self._fd, pending, self.size_bytes - len(pending))

    def finish(self) -> Group:
        """Bring everything to the disk. The directory is for the caller to sync."""
        files = self._files
        self._write_pending()
        files.sync(self._fd)
        self.close()
        self._add_time_entry()
        self._offset_index.write(sync=True)
        self._time_index.write(sync=True)
        self._transaction_index.write(sync=True)
        newest = f"{self._job.directory}/{file_name(self.sources[-1].base_offset, LOG_SUFFIX)}"
        files.set_modified_ms(self.path(LOG_SUFFIX), files.modified_ms(newest))
        return Group(
            tuple(source.base_offset for source in self.sources),
            self.base_offset,
            self.size_bytes,
            len(self._transaction_index),
            self._max_timestamp_ms,
            self._delete_horizon_ms,
        )

    def close(self) -> None:
        """Let go of the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._files.close(fd)

    def abandon(self) -> None:
        """Remove what was written."""
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            self._files.remove(self.path(suffix))
