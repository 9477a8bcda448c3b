"""Truncates a log's end to where it diverges from the leader's (KIP-101).

    | segment 0 | segment 40 .....|..... | segment 80 |        truncate to 60:
                                  x cut    removed first, their names synced; then the cut, synced too

Whole batches go. Truncated below the first segment, the log is empty and continues at the offset; truncated
below the log start offset, that falls too. Staged batches are written first, so that they are cut like the
rest.

Invariants: afterwards offsets, indexes, leader epochs, producers and transactions are as if the removed
batches had never been appended, also after a restart; a crash in between leaves a log without gaps, and the
follower compares it with its leader's and truncates again.

Not here: where two logs agree (replication/), what recovery cuts (cutting.py).
"""

import logging

from moldau.log.epochs import LeaderEpochs
from moldau.log.flushing import Flusher
from moldau.log.partition_files import PartitionFiles
from moldau.log.producers import Producers
from moldau.log.reader import Reader
from moldau.log.rebuild import cut_segment, rebuild_producers
from moldau.log.segment import CorruptSegment
from moldau.log.writer import Writer

logger = logging.getLogger(__name__)


class Truncation:
    """Truncates one log's end."""

    __slots__ = ("_epochs", "_files", "_flusher", "_producers", "_reader", "_writer")

    def __init__(
        self,
        files: PartitionFiles,
        reader: Reader,
        writer: Writer,
        flusher: Flusher,
        epochs: LeaderEpochs,
        producers: Producers,
    ) -> None:
        self._files = files
        self._reader = reader
        self._writer = writer
        self._flusher = flusher
        self._epochs = epochs
        self._producers = producers

    def to(self, offset: int) -> None:
        """Drop everything from the batch that contains `offset` on; OSError when the disk refuses.

        A leader epoch that begins there or behind goes too, also when no record does: this replica led in it
        and wrote nothing.
        """
        self._writer.flush_staged()
        files = self._files
        if offset >= self._writer.log_end_offset:
            self._truncate_epochs(offset)
            return
        if offset < files.segments[0].base_offset:
            self.fully(offset)
            return
        try:
            self._begin_cut()
            if files.active.base_offset > offset:
                while files.active.base_offset > offset:
                    files.active.remove()
                    files.segments.pop()
                # Before the cut below: a power cut must not leave a hole with these segments behind it.
                files.sync_directory()
            offset = self._cut_active(offset)
            self._end_cut(offset)
            rebuild_producers(
                files.file_system,
                files.directory,
                files.snapshot_offsets,
                files.segments,
                self._producers,
                offset,
            )
        except OSError as error:
            files.report_error(error)
            raise

    def _cut_active(self, offset: int) -> int:
        """Cut the last segment at the batch that contains `offset`; returns the log's end."""
        segment = self._files.active
        try:
            place = segment.find(offset)
            if place is not None:
                offset = min(offset, place.base_offset)
                cut_segment(segment, place.position, offset)
        except CorruptSegment as error:
            logger.error("%s. All of this segment is cut off, and fetched from the leader again", error)
            offset = segment.base_offset
            cut_segment(segment, 0, offset)
        segment.sync()
        return offset

    def fully(self, offset: int) -> None:
        """Drop everything; the log is empty and goes on at `offset`. OSError when the disk refuses."""
        self._writer.flush_staged()
        files = self._files
        created_ms = files.active.created_ms
        try:
            self._begin_cut()
            for segment in files.segments:
                segment.remove()
            files.segments[:] = [files.create_segment(offset, created_ms)]
            self._reader.start_offset = offset
            self._epochs.clear()
            files.write_epochs(self._epochs)
            # Also those below: with nothing in the log, the next start would load one at `offset`.
            for snapshot in list(files.snapshot_offsets):
                files.remove_snapshot(snapshot)
            self._end_cut(offset)
            self._producers.clear()
        except OSError as error:
            files.report_error(error)
            raise

    def _begin_cut(self) -> None:
        self._reader.forget()
        self._flusher.generation += 1

    def _end_cut(self, offset: int) -> None:
        """The segments end at `offset` now; update everything else."""
        files = self._files
        self._reader.start_offset = min(self._reader.start_offset, offset)
        self._flusher.end_was_cut(offset)
        files.changes += 1
        self._truncate_epochs(offset)
        for stale in [snapshot for snapshot in files.snapshot_offsets if snapshot > offset]:
            files.remove_snapshot(stale)
        self._writer.restart(offset)
        files.sync_directory()

    def _truncate_epochs(self, offset: int) -> None:
        if self._epochs.truncate_end(offset):
            self._files.write_epochs(self._epochs)
            self._writer.leader_epoch = self._epochs.latest()
