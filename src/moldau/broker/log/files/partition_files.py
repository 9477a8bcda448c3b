"""The files of one partition: its segments in order, the producer snapshots beside them, one directory.

    topic-0/  00000000000000000000.log .index .timeindex [.txnindex]    segments, oldest first
              00000000000000000042.log .index .timeindex                the last one grows
              00000000000000000042.snapshot                             producers' state at that offset
              leader-epoch-checkpoint  partition.metadata

Invariants: `segments` is never empty, and is one list for the log's whole life: the reader holds it too.
`changes` counts what was created, renamed or removed in the directory; a sync of the directory covers those
counted before it (flushing.py). Who may change the segments: the writer appends one, the log cuts, retires
and replaces some.

Not here: a segment's own files (segment.py), what snapshots hold (state/snapshots.py).
"""

from collections.abc import Callable

from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.segment import SNAPSHOT_SUFFIX, Segment, file_name
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.broker.log.state.producers import ProducerState
from moldau.broker.log.state.snapshots import write_snapshot
from moldau.common.core.files import Files


def _unreported(error: OSError) -> None:
    """The default of `report_error`."""


class PartitionFiles:
    """A partition's directory and the segments in it."""

    __slots__ = (
        "changes",
        "descriptors",
        "directory",
        "file_system",
        "report_error",
        "segments",
        "snapshot_offsets",
    )

    def __init__(
        self,
        file_system: Files,
        directory: str,
        descriptors: DescriptorLimit,
        segments: list[Segment],
        snapshot_offsets: list[int],
        *,
        directory_dirty: bool,
    ) -> None:
        """`directory_dirty`: files may have been created that a power cut would still take away."""
        self.file_system = file_system
        self.directory = directory
        self.descriptors = descriptors
        self.segments = segments
        self.snapshot_offsets = snapshot_offsets
        self.changes = int(directory_dirty)
        self.report_error: Callable[[OSError], None] = _unreported
        """Called with every disk error, before it is returned or raised."""

    @property
    def active(self) -> Segment:
        """The segment that grows."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """What the segments' log files hold, without what is staged."""
        return sum(segment.size_bytes for segment in self.segments)

    def create_segment(self, base_offset: int, created_ms: int) -> Segment:
        """An empty segment's file; the caller puts the segment into the list. OSError."""
        segment = Segment(self.file_system, self.directory, base_offset, self.descriptors, created_ms)
        segment.create()
        self.changes += 1
        return segment

    def write_snapshot(self, offset: int, states: dict[int, ProducerState]) -> None:
        """Write the producers' state at this offset, if there is no snapshot of it yet. OSError."""
        if offset not in self.snapshot_offsets:
            self.changes += 1
            write_snapshot(self.file_system, self.directory, offset, states)
            self.snapshot_offsets.append(offset)

    def remove_snapshot(self, offset: int) -> None:
        """Remove the snapshot of this offset, if there is one. OSError."""
        if offset in self.snapshot_offsets:
            self.snapshot_offsets.remove(offset)
            self.file_system.remove(self.snapshot_path(offset))

    def snapshot_path(self, offset: int) -> str:
        """The name of this offset's producer snapshot."""
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def write_epochs(self, epochs: LeaderEpochs) -> None:
        """Rewrite leader-epoch-checkpoint. An error is reported, not raised: recovery can complete
        the file from the batches, and a clean close writes it again.
        """
        self.changes += 1
        try:
            epochs.write()
        except OSError as error:
            self.report_error(error)

    def sync_directory(self) -> None:
        """Force the directory's names to the disk. OSError."""
        self.file_system.sync_directory(self.directory)

    def share_descriptors(self, descriptors: DescriptorLimit) -> None:
        """From now on open files count against this limit."""
        self.descriptors = descriptors
        for segment in self.segments:
            segment.close_descriptor()
            segment.descriptors = descriptors

    def moved_to(self, directory: str) -> None:
        """The directory has been renamed."""
        self.directory = directory
        for segment in self.segments:
            segment.moved_to(directory)

    def close_descriptors(self) -> None:
        """Close every open file; they are opened again when needed."""
        for segment in self.segments:
            segment.close_descriptor()
