"""Reads the producers of a log anew, on a worker thread, after its end was cut.

With transactions, the state at the new end does not follow from the state before: a marker that was cut off
has not been. So the batches since the last snapshot are walked, which takes a second for 200,000. Meanwhile
the log is held: nothing is appended, and nobody asks about producers.

    loop      cut ── take ───────────────────────── put in place ── append again
    worker            └─ sync, walk on files of its own ─┘

Not here: the walk (rebuild.py); short cuts, after which the states are known without it (truncation.py).
"""

import logging
from time import sleep

from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.partition_files import PartitionFiles
from moldau.broker.log.files.segment import CorruptSegment, Segment
from moldau.broker.log.recovery.rebuild import rebuild_producers
from moldau.broker.log.state.producers import Producers

logger = logging.getLogger("moldau.log.producers_rebuild")

_PAUSE_SECONDS = 0.0002


class ProducersRebuild:
    """The producers' state at `end_offset`, once `run` has found it and `finish` has put it in place."""

    __slots__ = ("_directory", "_files", "_found", "_producers", "_segments", "_snapshots", "end_offset")

    def __init__(self, files: PartitionFiles, producers: Producers, end_offset: int) -> None:
        """`files`: after the cut."""
        self.end_offset = end_offset
        self._files = files.file_system
        self._directory = files.directory
        self._snapshots = [offset for offset in files.snapshot_offsets if offset <= end_offset]
        self._segments = [(each.base_offset, each.size_bytes) for each in files.segments]
        self._producers = producers
        self._found: Producers | None = None

    def run(self) -> None:
        """Walk, in any thread. OSError: nothing is known yet; run it again."""
        descriptors = DescriptorLimit(2)
        segments = []
        for base_offset, size_bytes in self._segments:
            segment = Segment(self._files, self._directory, base_offset, descriptors, 0)
            segment.size_bytes = size_bytes
            segments.append(segment)
        found = Producers()
        try:
            rebuild_producers(
                self._files,
                self._directory,
                self._snapshots,
                segments,
                found,
                self.end_offset,
                pause=lambda: sleep(_PAUSE_SECONDS),  # leaves the interpreter to the event loop
            )
        except CorruptSegment as error:
            logger.error(
                "%s. Of the producers before offset %d not all are known: a retry of theirs may be taken "
                "for a new batch",
                error,
                self.end_offset,
            )
        finally:
            for segment in segments:
                segment.close_descriptor()
        self._found = found

    def finish(self) -> None:
        """On the event loop: the log's producers are those that were found."""
        if self._found is None:
            return  # the log was deleted meanwhile
        self._producers.load(self._found.states)
        self._producers.transactions.unreplicated[:] = self._found.transactions.unreplicated
