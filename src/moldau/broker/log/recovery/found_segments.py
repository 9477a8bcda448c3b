"""The files found in a partition's directory while the log is opened: segments, snapshots, and hints at its
former end offset.

Invariant: `segments` is in order and, once `load_segments` has run, never empty. `unindexed` and `rescanned`
say of which segments the index of aborted transactions must be rebuilt, and which were read as after a crash.

Not here: whether a segment is good (opening.py), its indexes (index_check.py), cutting it (cutting.py).
"""

from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.segment import LOG_SUFFIX, SNAPSHOT_SUFFIX, Segment, file_name
from moldau.broker.log.recovery.checked_scan import UNLIMITED
from moldau.broker.log.recovery.end_offset_hints import end_by_index, end_by_names, offset_named
from moldau.broker.log.recovery.leftovers import Leftovers
from moldau.common.core.files import Files
from moldau.common.settings.topic import TopicSettings


class FoundSegments:
    """The files of one partition that is being opened."""

    def __init__(
        self,
        files: Files,
        directory: str,
        name: str,
        settings: TopicSettings,
        descriptors: DescriptorLimit,
        now_ms: int,
    ) -> None:
        """`name` is the partition's, for messages."""
        self.files = files
        self.directory = directory
        self.name = name
        self.settings = settings
        self.descriptors = descriptors
        self.now_ms = now_ms
        self.segments: list[Segment] = []
        self.snapshot_offsets: list[int] = []
        self.hinted_end_offset = 0
        """The highest end that names, indexes and batches behind damage show."""
        self.bytes_truncated = 0
        self.truncated_because = ""
        self.records_cut = False
        """Whether whole batches stood behind what was cut, which the death of a process does not do."""
        self.unindexed: set[Segment] = set()
        """Segments whose index of aborted transactions has to be rebuilt."""
        self.rescanned: set[Segment] = set()
        """Segments that were checked batch by batch from the recovery point on."""
        self._names: list[str] = []
        self._found: list[str] = []

    def list_files(self) -> None:
        """List the directory; finish or undo what was under way when the broker stopped (leftovers.py)."""
        if not self.files.is_directory(self.directory):
            self.files.make_directory(self.directory)
        leftovers = Leftovers(self.files, self.directory)
        found = leftovers.names()
        self._found = found
        if not any(name.endswith(LOG_SUFFIX) for name in found):
            self.hinted_end_offset = max(
                self.hinted_end_offset, end_by_index(self.files, self.directory, found)
            )
        self._names = leftovers.settle()
        offsets = (offset_named(name) for name in self._names if name.endswith(SNAPSHOT_SUFFIX))
        self.snapshot_offsets = sorted(offset for offset in offsets if offset is not None)

    def hint_from_names(self) -> int:
        """The highest end that anything in the directory shows. Only needed where the end is in doubt."""
        return max(self.hinted_end_offset, end_by_names(self._found))

    def note_index_hint(self) -> None:
        """Before recovery drops the newest index: note the end offset that it shows."""
        self.hinted_end_offset = max(
            self.hinted_end_offset, end_by_index(self.files, self.directory, self._names)
        )

    def new_segment(self, base_offset: int) -> Segment:
        """An object for a segment of this directory; no file is touched."""
        return Segment(self.files, self.directory, base_offset, self.descriptors, self.now_ms)

    def load_segments(self, start_offset: int) -> None:
        """An object for every segment, with its size; an empty first segment at `start_offset` when there is
        none.
        """
        length = 20 + len(LOG_SUFFIX)
        names = (name for name in self._names if name.endswith(LOG_SUFFIX) and len(name) == length)
        offsets = (offset_named(name) for name in names)
        for base_offset in sorted(offset for offset in offsets if offset is not None):
            segment = self.new_segment(base_offset)
            segment.size_bytes = self.files.file_size_bytes(segment.path(LOG_SUFFIX))
            self.segments.append(segment)
        if not self.segments:
            self.start_afresh(start_offset)

    def start_afresh(self, offset: int) -> None:
        """One empty segment."""
        for segment in self.segments:
            segment.remove()
        fresh = self.new_segment(offset)
        fresh.create()
        self.segments[:] = [fresh]

    def continue_at(self, offset: int) -> None:
        """The log continues at this offset, behind its end: what lay between is lost. All of it is forced to
        disk, so that the next start finds it so.
        """
        last = self.segments[-1]
        if last.size_bytes:
            last.finish()
        for segment in self.segments:
            if segment.synced_bytes < segment.size_bytes:
                segment.sync()
        fresh = self.new_segment(offset)
        fresh.create()
        fresh.sync()
        self.files.sync_directory(self.directory)
        if not last.size_bytes:
            self.segments.pop().remove()
        self.segments.append(fresh)

    def drop_snapshots_beyond(self, end_offset: int) -> None:
        """Remove snapshots of offsets that the log has not reached, and of those before the newest all that
        do not belong to a segment's beginning.
        """
        bases = {segment.base_offset for segment in self.segments}
        newest = max((offset for offset in self.snapshot_offsets if offset <= end_offset), default=-1)
        dropped = [
            offset
            for offset in self.snapshot_offsets
            if offset > end_offset or (offset not in bases and offset != newest)
        ]
        for offset in dropped:
            self.files.remove(f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")
            self.snapshot_offsets.remove(offset)
        if dropped:
            self.files.sync_directory(self.directory)

    def limit(self, index: int) -> int:
        """The offset at which the next segment begins."""
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else UNLIMITED
