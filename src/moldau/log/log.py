"""One partition's log, whole: the growing end (appender.py) and everything that is done to a log besides.

Truncation, retention, deletion of records, leader epochs, search by time, forcing to disk, closing. All of it
runs on the event loop's thread; of fsync only the part in between does not (flushing.py). Reads are
`log.read`, see reader.py.

Invariants: log_start_offset <= flushed_end_offset <= written_end_offset <= log_end_offset once a turn has
ended (the first may pass the second when records are deleted before they were flushed); a segment's base
offset is the end offset at the moment it was begun; the last segment is the only one that changes.

Not here: opening and recovery (recovery.py), many logs (manager.py).
"""

from collections.abc import Sequence

from moldau.log import retention, timestamps
from moldau.log.append_result import Appended, AppendResult, Deferred, Refused, Repeated
from moldau.log.appender import CLIENT, Origin, is_disk_full
from moldau.log.descriptors import DescriptorLimit
from moldau.log.flushing import FsyncJob
from moldau.log.reader import OffsetOutOfRange
from moldau.log.scan import cut_segment, rebuild_producers
from moldau.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    CorruptSegment,
    Segment,
    file_name,
)
from moldau.log.timestamps import Search as TimestampSearch
from moldau.log.timestamps import TimestampAndOffset
from moldau.log.transactional import TransactionalAppender

__all__ = [
    "CLIENT",
    "AppendResult",
    "Appended",
    "CorruptSegment",
    "Deferred",
    "Log",
    "OffsetOutOfRange",
    "Origin",
    "Refused",
    "Repeated",
    "TimestampAndOffset",
    "is_disk_full",
]


class Log(TransactionalAppender):
    """A partition's log in its directory. `recovery.open_log` makes one."""

    __slots__ = ()

    # -- forcing to disk ---------------------------------------------------------------------------

    def fsync_job(self) -> FsyncJob | None:
        """What must be synced so that all that is written now is on the disk; None when it is already."""
        changes = self._directory_changes
        directory = self.directory if changes > self._directory_changes_synced else None
        # What compaction has replaced meanwhile was synced by it.
        aborts = [each for each in self._aborts_unsynced if each in self._segments]
        if self.flushed_end_offset >= self.written_end_offset and directory is None and not aborts:
            return None
        job = FsyncJob(self._files, self.written_end_offset, self._generation, directory, changes)
        try:
            if directory is not None:
                job.add_file(self.epochs.path)
            end_offset = self.written_end_offset
            for segment in reversed(self._segments):
                if end_offset <= self.flushed_end_offset and segment is not self._active:
                    break
                end_offset = segment.base_offset
                if segment.synced_bytes >= segment.size_bytes and segment is not self._active:
                    # Recovery syncs what it cuts, and not what comes before.
                    continue
                job.add(segment)
                job.add_file(f"{self.directory}/{file_name(segment.base_offset, SNAPSHOT_SUFFIX)}")
                if segment is not self._active:
                    job.add_file(segment.path(INDEX_SUFFIX))
                    job.add_file(segment.path(TIME_INDEX_SUFFIX))
            for segment in aborts:
                if segment.transaction_index.tail_entries:
                    segment.write_indexes()
                job.add_file(segment.path(TRANSACTION_INDEX_SUFFIX))
            job.aborts = aborts
        except OSError as error:
            job.close()
            self.on_error(self, error)
            raise
        return job

    def mark_flushed(self, job: FsyncJob) -> None:
        """The job has run without an error."""
        self._directory_changes_synced = max(self._directory_changes_synced, job.directory_changes)
        if job.generation != self._generation:
            return
        for segment, size_bytes in job.sizes:
            segment.synced_bytes = max(segment.synced_bytes, size_bytes)
        self._aborts_unsynced = [
            each for each in self._aborts_unsynced if each not in job.aborts and each in self._segments
        ]
        self.flushed_end_offset = max(self.flushed_end_offset, job.end_offset)

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms asks for a sync now."""
        unflushed = self.written_end_offset - self.flushed_end_offset
        if not unflushed:
            self.last_flush_ms = now_ms
            return False
        return (
            unflushed >= self.settings.flush_messages or now_ms - self.last_flush_ms >= self.settings.flush_ms
        )

    # -- searching ---------------------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: int) -> TimestampSearch:
        """A search for the first record below `end_offset` with at least this timestamp; it ends with None
        when there is none.
        """
        return timestamps.first_at_or_after(
            self._reader, timestamp_ms, min(end_offset, self.written_end_offset)
        )

    def max_timestamp(self, end_offset: int) -> TimestampSearch:
        """A search for the record with the largest timestamp below `end_offset`; it ends with None in a log
        without timestamps (KIP-734).
        """
        return timestamps.newest(self._reader, min(end_offset, self.written_end_offset))

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch up to this one and where it ended; (-1, -1) when unknown (KIP-101,
        KIP-320).
        """
        return self.epochs.end_offset(leader_epoch, self.log_end_offset)

    # -- cutting the end ---------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Drop everything from the batch that contains `offset` on; OSError when the disk refuses.

        The cut is synced: what was cut off must not come back after a power cut.
        """
        self.flush_staged()
        if offset >= self.log_end_offset:
            return
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._begin_cut()
        while self._segments[-1].base_offset > offset:
            self._segments.pop().remove()
        segment = self._segments[-1]
        place = segment.find(offset)
        if place is not None:
            offset = min(offset, place.base_offset)
            cut_segment(segment, place.position, offset)
        segment.sync()
        self._end_cut(offset)
        rebuild_producers(
            self._files,
            self.directory,
            self._snapshot_offsets,
            self._segments,
            self.producers,
            offset,
        )

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is empty and goes on at `offset`."""
        self.flush_staged()
        self._begin_cut()
        for segment in self._segments:
            segment.remove()
        fresh = Segment(self._files, self.directory, offset, self.descriptors, self._active.created_ms)
        fresh.create()
        self._segments[:] = [fresh]
        self._reader.start_offset = offset
        self.epochs.clear()
        self._write_epochs()
        self._end_cut(offset)
        self.producers.clear()

    def _begin_cut(self) -> None:
        self._reader.forget()
        self._generation += 1

    def _end_cut(self, offset: int) -> None:
        """The segments end at `offset` now; bring everything else in line."""
        self.log_end_offset = self._reader.end_offset = offset
        self._reader.start_offset = min(self._reader.start_offset, offset)
        self.flushed_end_offset = min(self.flushed_end_offset, offset)
        self._active = self._segments[-1]
        self._aborts_unsynced = [each for each in self._aborts_unsynced if each in self._segments[:-1]]
        self._since_index = self._since_index_written = 0
        self._directory_changes += 1
        if self.epochs.truncate_end(offset):
            self._write_epochs()
        self._leader_epoch = self.epochs.latest()
        for stale in [snapshot for snapshot in self._snapshot_offsets if snapshot > offset]:
            self._remove_snapshot(stale)
        self._adopt_active()
        self._set_roll_marks()
        self._files.sync_directory(self.directory)

    def _remove_snapshot(self, offset: int) -> None:
        self._snapshot_offsets.remove(offset)
        self._files.remove(f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")

    # -- cutting the beginning ---------------------------------------------------------------------

    def increment_log_start_offset(self, offset: int) -> bool:
        """Records below `offset` are deleted, if they were not before; their segments go at the next
        retention.
        """
        if not self.log_start_offset < offset <= self.written_end_offset:
            return False
        self._reader.start_offset = offset
        if self.epochs.truncate_start(offset):
            self._write_epochs()
        return True

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[str]:
        """Take segments that are too old, too many or deleted out of the log.

        Returns the names of their files, renamed to `.deleted`, to be removed after file.delete.delay.ms.
        """
        count = retention.expendable(
            self._stretches(), self.settings, self.log_start_offset, high_watermark, now_ms
        )
        if not count:
            return []
        if count == len(self._segments):
            self.roll(now_ms)
        removed: list[str] = []
        self._reader.forget()
        for segment in self._segments[:count]:
            removed += segment.rename_to_deleted()
            if segment.base_offset in self._snapshot_offsets:
                self._remove_snapshot(segment.base_offset)
        del self._segments[:count]
        self._aborts_unsynced = [each for each in self._aborts_unsynced if each in self._segments]
        self._directory_changes += 1
        self.increment_log_start_offset(self._segments[0].base_offset)
        return removed

    def _stretches(self) -> list[retention.Stretch]:
        stretches: list[retention.Stretch] = []
        for index, segment in enumerate(self._segments):
            last = index + 1 == len(self._segments)
            end_offset = self.log_end_offset if last else self._segments[index + 1].base_offset
            newest_ms = segment.max_timestamp_ms
            if newest_ms < 0 and (segment.size_bytes or last):
                # (One that compaction has emptied is as old as can be.)
                newest_ms = self._files.modified_ms(segment.path(LOG_SUFFIX))
            stretches.append(
                retention.Stretch(segment.base_offset, end_offset, segment.size_bytes, newest_ms)
            )
        return stretches

    # -- compaction --------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """How often the log's end has been cut: what was found out about its segments before is void."""
        return self._generation

    def replace_segments(self, old: Sequence[Segment], fresh: Segment) -> None:
        """Compaction has made `fresh` of these neighbours; the files are its business (compaction/swap.py).

        The start offset stays: `fresh` has the first one's base offset, whatever is left in it. A producer
        snapshot belongs to a segment's beginning, so those of the other beginnings go; the states that they
        held can be had from an earlier one and the batches after it.
        """
        place = self._segments.index(old[0])
        for segment in old:
            segment.close_descriptor()
        self._reader.forget()
        self._segments[place : place + len(old)] = [fresh]
        self._aborts_unsynced = [each for each in self._aborts_unsynced if each in self._segments]
        self._directory_changes += 1
        for segment in old[1:]:
            if segment.base_offset in self._snapshot_offsets:
                self._remove_snapshot(segment.base_offset)

    # -- producers ---------------------------------------------------------------------------------

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have not written for so long; not in the middle of a turn."""
        if not self._undo:
            known = bool(self._states)
            self.producers.expire(now_ms, expiration_ms)
            self._producers_expired |= known and not self._states

    # -- the end -----------------------------------------------------------------------------------

    def prepare_close(self) -> FsyncJob | None:
        """Write everything that a clean close leaves behind; the job, if any, must run before
        `close(clean=False)`.
        """
        self.flush_staged()
        for segment in self._segments:
            if segment is self._active or segment.has_unwritten_indexes:
                segment.finish()
        if self._epochs_stale:
            self.epochs.write()
        if self._states or self._snapshot_offsets or self._producers_expired:
            self._write_snapshot(self.log_end_offset)
        if len(self._active.transaction_index) and self._active not in self._aborts_unsynced:
            self._aborts_unsynced.append(self._active)
        job = self.fsync_job()
        if job is not None:
            # Nobody will look into the log again to see which transactions are open.
            job.add_file(f"{self.directory}/{file_name(self.log_end_offset, SNAPSHOT_SUFFIX)}")
        return job

    def close(self, *, clean: bool = True) -> None:
        """Let go of the files. A clean close leaves nothing for recovery to do; OSError when the disk refuses
        that.
        """
        try:
            if clean and not self.offline:
                job = self.prepare_close()
                if job is not None:
                    job.run()
                    self.mark_flushed(job)
        finally:
            for segment in self._segments:
                segment.close_descriptor()

    def share_descriptors(self, descriptors: DescriptorLimit) -> None:
        """From now on open files count against this limit."""
        self.descriptors = descriptors
        for segment in self._segments:
            segment.close_descriptor()
            segment.descriptors = descriptors

    def moved_to(self, directory: str) -> None:
        """The log's directory has been renamed."""
        self.directory = directory
        self.epochs.moved_to(directory)
        for segment in self._segments:
            segment.moved_to(directory)

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition}, offsets {self.log_start_offset}-{self.log_end_offset})"
