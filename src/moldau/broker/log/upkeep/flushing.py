"""Fsyncs a log without blocking the event loop: prepared on the loop, run in a thread, recorded on the loop.

    job = log.flusher.job()        # loop: which files, up to which offset; None when all is on the disk
    await in_thread(job.run)       # thread: touches only its own descriptors
    log.flusher.job_done(job)      # loop

The job holds duplicates of the descriptors, so that the log may close or rename its files meanwhile. An fsync
error is final: the kernel may have dropped the pages, and a second fsync would succeed without them. The
log's directory goes offline.

`Flusher` tracks how far a log is on the disk. Invariants: all below `end_offset` is in log files that were
synced; all below `recovery_point` has its index of aborted transactions synced too, which recovery cannot do
without. Only `job_done`, and the log when it cuts its end, change these.
"""

import contextlib
import errno
import os
from collections.abc import Sequence

from moldau.broker.log.files.checkpoints import PARTITION_METADATA_NAME
from moldau.broker.log.files.partition_files import PartitionFiles
from moldau.broker.log.files.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, Segment
from moldau.broker.log.reading.reader import Reader
from moldau.broker.log.state.epochs import OFFSET_MAX, LeaderEpochs
from moldau.common.core.files import Files
from moldau.common.settings.topic import TopicSettings


class FsyncJob:
    """What has to be synced so that everything below `end_offset` is on the disk."""

    __slots__ = (
        "_descriptors",
        "_directory",
        "_files",
        "aborts",
        "directory_changes",
        "end_offset",
        "epochs_too",
        "generation",
        "sizes",
    )

    def __init__(
        self, files: Files, end_offset: int, generation: int, directory: str | None, directory_changes: int
    ) -> None:
        """`directory` is named when files have been created in it that no finished job has synced yet;
        `directory_changes` says up to which of its changes this job does.
        """
        self.directory_changes = directory_changes
        self._files = files
        self._directory = directory
        self._descriptors: list[int] = []
        self.end_offset = end_offset
        self.generation = generation
        self.sizes: list[tuple[Segment, int]] = []
        self.aborts: list[Segment] = []
        """Full segments whose transaction index this job syncs."""
        self.epochs_too = False
        """Whether it syncs all leader epochs that there were."""

    def add(self, segment: Segment) -> None:
        """The segment's log file, as far as it has been written now."""
        self._descriptors.append(self._files.duplicate(segment.descriptor()))
        self.sizes.append((segment, segment.size_bytes))

    def add_file(self, path: str) -> None:
        """Another file, if it exists: an index."""
        if self._files.exists(path):
            self._descriptors.append(self._files.open(path))

    def run(self) -> None:
        """Sync; OSError when the disk failed. To be called once, in any thread."""
        try:
            for fd in self._descriptors:
                self._sync(fd)
            if self._directory is not None:
                # The log may have been deleted meanwhile; then there is nothing left to keep.
                with contextlib.suppress(FileNotFoundError):
                    self._files.sync_directory(self._directory)
                self._files.sync_directory(os.path.dirname(self._directory))
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the descriptors."""
        descriptors, self._descriptors = self._descriptors, []
        for fd in descriptors:
            self._files.close(fd)

    def _sync(self, fd: int) -> None:
        try:
            self._files.sync(fd)
        except OSError as error:
            # Also one that says "no space" has lost pages: nothing that passes by itself.
            raise OSError(errno.EIO, f"fsync failed: {error.strerror or error}") from error


class Flusher:
    """Tracks how far a log is on the disk, and makes the jobs that advance it."""

    __slots__ = (
        "_aborts_unsynced",
        "_changes_synced",
        "_epochs",
        "_files",
        "_reader",
        "end_offset",
        "generation",
        "last_flush_ms",
    )

    def __init__(
        self, files: PartitionFiles, reader: Reader, epochs: LeaderEpochs, flushed_end_offset: int
    ) -> None:
        self._files = files
        self._reader = reader
        self._epochs = epochs
        self.end_offset = flushed_end_offset
        self.last_flush_ms = 0
        self.generation = 0
        """How often the log's end has been cut: what was found out about its segments before is void."""
        # A count, not a flag: two syncs may be under way, and the later one may end first.
        self._changes_synced = 0
        # Full segments whose transaction index is perhaps not on the disk. Unlike the other indexes it cannot
        # do with less than all, so recovery has to begin no later than here.
        self._aborts_unsynced: list[Segment] = []

    @property
    def recovery_point(self) -> int:
        """Everything below is on the disk, transaction indexes included; recovery begins here."""
        unsynced, point = self._aborts_unsynced, min(self.end_offset, self._epochs.unsafe_from)
        return min(point, unsynced[0].base_offset) if unsynced else point

    def is_due(self, settings: TopicSettings, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms asks for a sync now."""
        unflushed = self._reader.end_offset - self.end_offset
        if not unflushed:
            self.last_flush_ms = now_ms
            return False
        return unflushed >= settings.flush_messages or now_ms - self.last_flush_ms >= settings.flush_ms

    def job(self) -> FsyncJob | None:
        """What must be synced so that all that is written now is on the disk; None when it is already."""
        files = self._files
        if self._epochs.unwritten:
            files.write_epochs(self._epochs)  # the disk was full, perhaps
        changes = files.changes
        directory = files.directory if changes > self._changes_synced else None
        # What compaction has replaced meanwhile was synced by it.
        aborts = [each for each in self._aborts_unsynced if each in files.segments]
        written_end_offset = self._reader.end_offset
        if self.end_offset >= written_end_offset and directory is None and not aborts:
            return None
        job = FsyncJob(files.file_system, written_end_offset, self.generation, directory, changes)
        try:
            if directory is not None:
                job.add_file(self._epochs.path)
                job.epochs_too = not self._epochs.unwritten
                if not self._changes_synced:
                    # Torn by a power cut, the topic's id would be unknown, and the records taken for those
                    # of a topic of the same name that was made since.
                    job.add_file(f"{files.directory}/{PARTITION_METADATA_NAME}")
            self._add_segments(job)
            for segment in aborts:
                if segment.transaction_index.tail_entries:
                    segment.write_indexes()
                job.add_file(segment.path(TRANSACTION_INDEX_SUFFIX))
            job.aborts = aborts
        except OSError as error:
            job.close()
            files.report_error(error)
            raise
        return job

    def _add_segments(self, job: FsyncJob) -> None:
        """The active segment, and every other that holds something from the flushed end on."""
        files = self._files
        end_offset = job.end_offset
        for segment in reversed(files.segments):
            active = segment is files.active
            if end_offset <= self.end_offset and not active:
                break
            end_offset = segment.base_offset
            if segment.synced_bytes >= segment.size_bytes and not active:
                # Recovery syncs what it cuts, and not what comes before.
                continue
            job.add(segment)
            job.add_file(files.snapshot_path(segment.base_offset))
            if not active:
                job.add_file(segment.path(INDEX_SUFFIX))
                job.add_file(segment.path(TIME_INDEX_SUFFIX))

    def closing_job(self, end_offset: int) -> FsyncJob | None:
        """As `job`, with the index files that a start after a clean stop relies on."""
        active = self._files.active
        if len(active.transaction_index):
            self.aborts_written(active)
        job = self.job()
        if job is not None:
            # After a clean stop the open transactions are taken from the snapshot alone.
            job.add_file(self._files.snapshot_path(end_offset))
        return job

    def job_done(self, job: FsyncJob) -> None:
        """The job has run without an error."""
        self._changes_synced = max(self._changes_synced, job.directory_changes)
        if job.epochs_too and not self._epochs.unwritten:
            self._epochs.unsafe_from = OFFSET_MAX
        if job.generation != self.generation:
            return
        for segment, size_bytes in job.sizes:
            segment.synced_bytes = max(segment.synced_bytes, size_bytes)
        self._aborts_unsynced = [each for each in self._aborts_unsynced if each not in job.aborts]
        self.forget_removed()
        self.end_offset = max(self.end_offset, job.end_offset)

    def aborts_written(self, segment: Segment) -> None:
        """The segment is full, or the log closes, and it has an index of aborted transactions."""
        if segment not in self._aborts_unsynced:
            self._aborts_unsynced.append(segment)

    def forget_removed(self, segments: Sequence[Segment] | None = None) -> None:
        """Forget what is not among `segments` (by default the log's) any more."""
        kept = self._files.segments if segments is None else segments
        self._aborts_unsynced = [each for each in self._aborts_unsynced if each in kept]

    def end_was_cut(self, end_offset: int) -> None:
        """The log was truncated to this offset, and the truncation synced."""
        self.end_offset = min(self.end_offset, end_offset)
        self.forget_removed(self._files.segments[:-1])
