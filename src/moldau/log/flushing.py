"""Forcing a log to the disk without holding up the event loop: prepared on it, run in a thread, noted on it
again.

    job = log.fsync_job()          # loop: which files, up to which offset; None when all is on the disk
    await in_thread(job.run)       # thread: touches only its own descriptors
    log.mark_flushed(job)          # loop

The job holds duplicates of the descriptors, so that the log may close or rename its files meanwhile. An error
of fsync is final: the kernel may have dropped the pages, and a second fsync would say that all is well.
Whoever sees one takes the log's directory offline.
"""

import contextlib
import errno
import os

from moldau.core.files import Files
from moldau.log.segment import Segment


class FsyncJob:
    """What has to be synced so that everything below `end_offset` is on the disk."""

    __slots__ = (
        "_descriptors",
        "_directory",
        "_files",
        "aborts",
        "directory_changes",
        "end_offset",
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
