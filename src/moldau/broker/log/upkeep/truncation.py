"""Truncates a log's end to where it diverges from the leader's (KIP-101).

    | segment 0 | segment 40 .....|..... | segment 80 |        truncate to 60:
                                  x cut    removed first, their names synced; then the cut, synced too

Whole batches go. Truncated below the first segment, the log is empty and continues at the offset; truncated
below the log start offset, that falls too. Staged batches are written first, so that they are cut like the
rest.

On the event loop nothing waits for the disk: `begin` cuts and returns a `CutJob`, which a worker thread runs.
Until it has run, nothing may be appended: a crash could undo the cut, and producers may not be known yet
(producers_rebuild.py). Where later segments are removed the rest of the cut comes after that, in a second
step. In between the log is whole, and ends where the removed segments began.

Invariants: afterwards offsets, indexes, leader epochs, producers and transactions are as if the removed
batches had never been appended, also after a restart; a crash in between leaves a log without gaps, and the
follower compares it with its leader's and truncates again.

Not here: where two logs agree (replication/), what recovery cuts (cutting.py).
"""

import contextlib
import logging

from moldau.broker.log.appending.writer import Writer
from moldau.broker.log.files.partition_files import PartitionFiles
from moldau.broker.log.files.segment import CorruptSegment
from moldau.broker.log.reading.reader import Reader
from moldau.broker.log.recovery.rebuild import cut_segment
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.broker.log.state.producers import UNKNOWN_COORDINATOR_EPOCH, Producers, ProducerState
from moldau.broker.log.state.producers_rebuild import ProducersRebuild
from moldau.broker.log.upkeep.flushing import Flusher
from moldau.common.core.files import Files

logger = logging.getLogger("moldau.log.truncation")


class CutJob:
    """Forces a cut to the disk, and reads the producers anew where they do not follow from before."""

    __slots__ = ("_descriptor", "_directory", "_files", "producers", "unfinished")

    def __init__(
        self,
        files: Files,
        directory: str,
        descriptor: int | None,
        *,
        unfinished: bool,
        producers: ProducersRebuild | None = None,
    ) -> None:
        """`descriptor`: a duplicate of the cut file's, which the job closes."""
        self._files = files
        self._directory = directory
        self._descriptor = descriptor
        self.unfinished = unfinished
        """Whether the cut goes on afterwards: call `begin` again."""
        self.producers = producers

    def run(self) -> None:
        """Sync and read, in any thread; after an OSError, run it again or `close` it."""
        if self._descriptor is not None:
            self._files.sync(self._descriptor)
            self.close()
        # The log may have been deleted meanwhile; then there is nothing left to keep.
        with contextlib.suppress(FileNotFoundError):
            self._files.sync_directory(self._directory)
            if self.producers is not None:
                self.producers.run()

    def close(self) -> None:
        """It will not be run again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._files.close(descriptor)


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
        while (job := self.begin(offset)) is not None:
            self._run(job)
            if not job.unfinished:
                break

    def _run(self, job: CutJob) -> None:
        try:
            job.run()
            if job.producers is not None:
                job.producers.finish()
        except OSError as error:
            job.close()
            self._files.report_error(error)
            raise

    def begin(self, offset: int) -> CutJob | None:
        """As `to`, but the cut is not forced to the disk yet: the job does that; None when no record goes."""
        self._writer.flush_staged()
        files = self._files
        if offset >= self._writer.log_end_offset:
            self._truncate_epochs(offset)
            return None
        if offset < files.segments[0].base_offset:
            return self.begin_fully(offset)
        descriptor = None
        unfinished = files.active.base_offset > offset
        try:
            # What may fail for want of a descriptor comes before the cut: then nothing is cut.
            if unfinished:
                offset = min(each.base_offset for each in files.segments if each.base_offset > offset)
                self._begin_cut()
                # Before the cut: a power cut must not leave a hole with these segments behind it.
                while files.active.base_offset >= offset:
                    files.active.remove()
                    files.segments.pop()
            else:
                descriptor = files.file_system.duplicate(files.active.descriptor())
                offset = self._cut_active(offset)
            self._end_cut(offset)
        except OSError as error:
            if descriptor is not None:
                files.file_system.close(descriptor)
            files.report_error(error)
            raise
        return CutJob(
            files.file_system,
            files.directory,
            descriptor,
            unfinished=unfinished,
            producers=self._cut_producers(offset),
        )

    def _cut_producers(self, end_offset: int) -> ProducersRebuild | None:
        """Cut the producers' state to the log's new end; what must run for that, if it is not known."""
        producers = self._producers
        if not (producers.ongoing or producers.transactions.unreplicated) and all(
            state.coordinator_epoch == UNKNOWN_COORDINATOR_EPOCH for state in producers.states.values()
        ):
            # There never was a transaction.
            cut = {
                producer_id: _before(state, end_offset)
                for producer_id, state in producers.states.items()
                if state.last_offset >= end_offset
            }
            if None not in cut.values():
                producers.states.update((key, state) for key, state in cut.items() if state is not None)
                return None
        return ProducersRebuild(self._files, producers, end_offset)

    def _cut_active(self, offset: int) -> int:
        """Cut the last segment at the batch that contains `offset`; returns the log's end."""
        segment = self._files.active
        try:
            place = segment.find(offset)
            if place is not None:
                offset = min(offset, place.base_offset)
            self._begin_cut()
            if place is not None:
                cut_segment(segment, place.position, offset)
        except CorruptSegment as error:
            logger.error("%s. All of this segment is cut off, and fetched from the leader again", error)
            offset = segment.base_offset
            self._begin_cut()
            cut_segment(segment, 0, offset)
        return offset

    def fully(self, offset: int) -> None:
        """Drop everything; the log is empty and goes on at `offset`. OSError when the disk refuses."""
        self._run(self.begin_fully(offset))

    def begin_fully(self, offset: int) -> CutJob:
        """As `fully`, but what is done is not forced to the disk yet: the job does that."""
        self._writer.flush_staged()
        files = self._files
        created_ms = files.active.created_ms
        try:
            self._begin_cut()
            # What a crash leaves is the log's end, or nothing: it is compared with the leader's once more.
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
        return CutJob(files.file_system, files.directory, None, unfinished=False)

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

    def _truncate_epochs(self, offset: int) -> None:
        if self._epochs.truncate_end(offset):
            self._files.write_epochs(self._epochs)
            self._writer.leader_epoch = self._epochs.latest()


def _before(state: ProducerState, end_offset: int) -> ProducerState | None:
    """A producer's state without the batches from `end_offset` on; None when no batch before is known. Those
    that are known are of one producer epoch.
    """
    kept = tuple(batch for batch in state.batches if batch.last_offset < end_offset)
    if not kept:
        return None
    last = kept[-1]
    return state._replace(
        last_sequence=last.last_sequence,
        last_offset=last.last_offset,
        last_timestamp_ms=last.max_timestamp_ms,
        batches=kept,
    )
