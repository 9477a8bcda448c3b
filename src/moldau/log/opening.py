"""A partition's directory while it is being opened: its segments, one after the other, believed or checked.

A segment that is believed (`trust`) is looked at where it ends (segment_end.py); one that is checked
(`recover`) is read batch by batch (checked_scan.py). What is damaged is cut off. Behind the recovery point a
crash may have torn anything, so that the log ends at the damage, and what stood behind it goes; before it,
the later segments were on the disk and stay, and whole batches behind the damage get a segment of their own:

    |  segment 0  |  segment 40 ~~~|  segment 80  |  segment 120  ..~~~
                    cut at 61,      80 and 120 stay    ^ recovery point    cut here

Not here: which of the two happens to a segment, and what the log is made of in the end (recovery.py).
"""

import logging
from collections.abc import Mapping

from moldau.core.files import Files
from moldau.core.settings.topic import TopicSettings
from moldau.log.checked_scan import UNLIMITED, CheckedScan
from moldau.log.damage import (
    Damage,
    copy_tail,
    keep_segment,
    keep_tail,
    next_whole,
    records_behind,
    whole_batch,
)
from moldau.log.descriptors import DescriptorLimit
from moldau.log.epochs import LeaderEpochs
from moldau.log.leftovers import Leftovers
from moldau.log.producers import Producers
from moldau.log.scan import cut_segment, rebuild_producers
from moldau.log.segment import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    CorruptSegment,
    Segment,
    file_name,
)
from moldau.log.segment_end import SegmentEnd, WrongIndex, first_timestamp_ms, rebuild_index, walk_end
from moldau.log.traces import end_by_index, end_by_names, offset_named
from moldau.log.transaction_index import DamagedIndex
from moldau.records.batch import HEADER_BYTES, NO_TIMESTAMP

ANY_OFFSET = 1 << 62

logger = logging.getLogger(__name__)


class Opening:
    """One directory being opened."""

    def __init__(
        self,
        files: Files,
        directory: str,
        name: str,
        settings: TopicSettings,
        descriptors: DescriptorLimit,
        now_ms: int,
    ) -> None:
        self.files = files
        self.directory = directory
        self.name = name
        self.settings = settings
        self.descriptors = descriptors
        self.now_ms = now_ms
        self.segments: list[Segment] = []
        self.snapshot_offsets: list[int] = []
        self.bytes_truncated = 0
        self.reason = ""
        self.traced_end_offset = 0
        """The highest end that names, indexes and batches behind damage tell of."""
        self.cleaned_offset = 0
        """Compaction has come so far: it leaves gaps below."""
        self.gaps_end_offset = 0
        """Behind a gap from this offset on, segments are not kept."""
        self.flushed_offset = 0
        """All below was on the disk: what follows on damage there is kept."""
        self.known_end_offset = -1
        """Where the log ended when it was last seen whole, or -1."""
        self._unindexed: set[Segment] = set()
        """Segments whose index of aborted transactions has to be built anew."""
        self._rescanned: set[Segment] = set()
        self._ends: dict[Segment, SegmentEnd] = {}
        self._names: list[str] = []
        self._found: list[str] = []

    # -- what is there -----------------------------------------------------------------------------

    def list_files(self) -> None:
        """Read the directory; finish or forget what was under way when the broker stopped."""
        if not self.files.is_directory(self.directory):
            self.files.make_directory(self.directory)
        leftovers = Leftovers(self.files, self.directory)
        found = leftovers.names()
        self._found = found
        if not any(name.endswith(LOG_SUFFIX) for name in found):
            self.traced_end_offset = max(
                self.traced_end_offset, end_by_index(self.files, self.directory, found)
            )
        self._names = leftovers.settle()
        offsets = (offset_named(name) for name in self._names if name.endswith(SNAPSHOT_SUFFIX))
        self.snapshot_offsets = sorted(offset for offset in offsets if offset is not None)

    def trace_names(self) -> int:
        """The highest end that anything in the directory tells of. Only asked where the end is in doubt."""
        return max(self.traced_end_offset, end_by_names(self._found))

    def trace_index(self) -> None:
        """Before recovery forgets what the newest index says: note how far the log had come by it."""
        self.traced_end_offset = max(
            self.traced_end_offset, end_by_index(self.files, self.directory, self._names)
        )

    def _segment(self, base_offset: int) -> Segment:
        return Segment(self.files, self.directory, base_offset, self.descriptors, self.now_ms)

    def load_segments(self, start_offset: int) -> None:
        """An object for every segment, with its size; an empty first segment at `start_offset` when there is
        none.
        """
        length = 20 + len(LOG_SUFFIX)
        names = (name for name in self._names if name.endswith(LOG_SUFFIX) and len(name) == length)
        offsets = (offset_named(name) for name in names)
        for base_offset in sorted(offset for offset in offsets if offset is not None):
            segment = self._segment(base_offset)
            segment.size_bytes = self.files.file_size_bytes(segment.path(LOG_SUFFIX))
            self.segments.append(segment)
        if not self.segments:
            self.start_afresh(start_offset)

    def start_afresh(self, offset: int) -> None:
        """One empty segment."""
        for segment in self.segments:
            segment.remove()
        fresh = self._segment(offset)
        fresh.create()
        self.segments[:] = [fresh]
        self._ends.clear()

    def continue_at(self, offset: int) -> None:
        """The log goes on at this offset, behind its end: what lay between is lost. All of it is forced to
        disk, so that nobody has to find this out again.
        """
        last = self.segments[-1]
        if last.size_bytes:
            last.finish()
        for segment in self.segments:
            if segment.synced_bytes < segment.size_bytes:
                segment.sync()
        fresh = self._segment(offset)
        fresh.create()
        fresh.sync()
        self.files.sync_directory(self.directory)
        if not last.size_bytes:
            self.segments.pop().remove()
        self.segments.append(fresh)

    def drop_snapshots_beyond(self, end_offset: int) -> None:
        """Snapshots of offsets that the log has not reached are lies; of the others, only useful ones
        stay.
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

    # -- believing ---------------------------------------------------------------------------------

    def trust(self, until: Segment | None, epochs: LeaderEpochs) -> None:
        """Take up the segments before `until` (None: all) as they are, if they end as they should; rebuild
        indexes that are missing or wrong; cut off what is damaged, but of the log's last segment.
        """
        index = 0
        while index < len(self.segments) and self.segments[index] is not until:
            segment = self.segments[index]
            segment.synced_bytes = segment.size_bytes
            limit_offset = self._limit(index)
            end = self._take_up_indexes(segment, limit_offset)
            if end.problem and limit_offset != UNLIMITED:
                end = self._mend(index, epochs)
            self._ends[segment] = end
            if limit_offset == UNLIMITED:
                segment.first_timestamp_ms = first_timestamp_ms(segment)
            index += 1

    def _limit(self, index: int) -> int:
        """The offset at which the next segment begins."""
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else UNLIMITED

    def _take_up_indexes(self, segment: Segment, limit_offset: int) -> SegmentEnd:
        why = ""
        if not segment.offset_index.load() or not segment.time_index.load():
            why = "one is missing, or not in order"
        try:
            segment.transaction_index.load(segment.base_offset)
        except DamagedIndex as error:
            logger.warning("%s: an index is built anew: %s", self.name, error)
            self._unindexed.add(segment)
        if not why:
            try:
                end = walk_end(segment, limit_offset)
            except WrongIndex as error:
                why = str(error)
            else:
                why = self._emptied(segment, end)
                if not why:
                    self._take_up_timestamps(segment)
                    return self._rebuild_indexes(segment, limit_offset) if self._sparse(segment, end) else end
        if segment.size_bytes:
            log_name = file_name(segment.base_offset, LOG_SUFFIX)
            logger.warning("%s: the indexes of %s are built anew: %s", self.name, log_name, why)
            self._unindexed.add(segment)
        return self._rebuild_indexes(segment, limit_offset)

    def _emptied(self, segment: Segment, end: SegmentEnd) -> str:
        """Whether the time index holds less than it must: nothing in spite of timestamps."""
        newest = segment.time_index.last()
        if end.last is None:
            return ""
        if newest is None:
            return "the time index is empty" if end.last.max_timestamp_ms >= 0 else ""
        if segment.base_offset + newest[1] >= end.next_offset:
            return f"the time index names offset {segment.base_offset + newest[1]}"
        return ""

    def _sparse(self, segment: Segment, end: SegmentEnd) -> bool:
        """Whether an offset index without entries is worth being made anew. No sign of damage: a few batches
        between two starts each leave none, and the interval may have been longer.
        """
        if end.last is None or len(segment.offset_index):
            return False
        return end.last.position > self.settings.index_interval_bytes

    def _take_up_timestamps(self, segment: Segment) -> None:
        newest = segment.time_index.last()
        if newest is not None:
            segment.max_timestamp_ms = newest[0]
            segment.max_timestamp_offset = segment.base_offset + newest[1]

    def _forget_indexes(self, segment: Segment) -> None:
        segment.offset_index.keep(0)
        segment.time_index.keep(0)
        segment.max_timestamp_ms, segment.max_timestamp_offset = NO_TIMESTAMP, segment.base_offset

    def _rebuild_indexes(self, segment: Segment, limit_offset: int) -> SegmentEnd:
        self._forget_indexes(segment)
        end = rebuild_index(segment, limit_offset, self.settings.index_interval_bytes)
        segment.first_timestamp_ms = first_timestamp_ms(segment)
        if segment.size_bytes:
            segment.finish()
        return end

    def _mend(self, index: int, epochs: LeaderEpochs) -> SegmentEnd:
        """A segment before the last does not end as it should: check it from its last indexed batch on."""
        segment = self.segments[index]
        end_offset, damage = self._recover_segment(index, ANY_OFFSET, epochs)
        if damage is not None:
            self._split(index, damage, end_offset)
            self._cut_within(index, damage, end_offset)
        segment.write_indexes()
        return SegmentEnd(segment.size_bytes, end_offset, None, False, "")

    def end_of_last(self) -> SegmentEnd:
        """How the last segment ends, once it is trusted."""
        return self._ends[self.segments[-1]]

    def last_batch(self) -> tuple[int, int] | None:
        """(base offset, leader epoch) of the last batch that `trust` has seen."""
        for segment in reversed(self.segments):
            end = self._ends.get(segment)
            if end is not None and end.last is not None:
                return end.last.base_offset, end.last.leader_epoch
        return None

    @property
    def checked(self) -> bool:
        """Whether any segment was read as after a crash."""
        return bool(self._rescanned)

    def producers_seen(self) -> bool:
        """Whether `trust` has come across batches of idempotent producers."""
        return any(end.produced for end in self._ends.values())

    def tell_gaps(self) -> None:
        """Log each gap between trusted segments that compaction has not left: a segment is missing there."""
        if self.settings.compacts:
            return
        for before, after in zip(self.segments, self.segments[1:], strict=False):
            end = self._ends.get(before)
            if (
                end is None
                or end.next_offset >= after.base_offset
                or after.base_offset <= self.cleaned_offset
            ):
                continue
            logger.error(
                "%s: offsets %d to %d are missing between %s and %s: readers go on behind them. If a file "
                "was "
                "moved away, stop the broker and put it back",
                self.name,
                end.next_offset,
                after.base_offset - 1,
                file_name(before.base_offset, LOG_SUFFIX),
                file_name(after.base_offset, LOG_SUFFIX),
            )

    # -- producers ---------------------------------------------------------------------------------

    def check_aborts(self, checksums: Mapping[int, int], *, complete: bool) -> None:
        """Compare the indexes of aborted transactions with what was noted of them, by segment. `complete`: a
        segment that is not named had none.
        """
        for segment in self.segments:
            expected = checksums.get(segment.base_offset, 0 if complete else None)
            if expected is None or segment in self._rescanned or segment in self._unindexed:
                continue
            if segment.transaction_index.checksum() != expected:
                logger.warning(
                    "%s: %s is missing or damaged: it is built anew",
                    self.name,
                    file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX),
                )
                self._unindexed.add(segment)

    def producers(self, end_offset: int, *, whole: bool) -> Producers:
        """The producers' state at the log's end, and with it every index of aborted transactions that cannot
        be believed.

        After a clean stop (not `whole`) the state is the snapshot's.
        """
        segments = self.segments
        for place, segment in enumerate(segments):
            if segment in self._unindexed and segment not in self._rescanned:
                stop = segments[place + 1].base_offset if place + 1 < len(segments) else end_offset
                self._rebuild(Producers(), stop, [segment])
        producers = Producers()
        if whole or self.snapshot_offsets:
            stale = [segment for segment in segments if segment in self._rescanned]
            self._rebuild(producers, end_offset, stale)
        return producers

    def _rebuild(self, producers: Producers, end_offset: int, stale: list[Segment]) -> None:
        rebuild_producers(
            self.files,
            self.directory,
            self.snapshot_offsets,
            self.segments,
            producers,
            end_offset,
            stale=stale,
        )

    # -- leader epochs -----------------------------------------------------------------------------

    def rebuild_epochs(self, count: int, epochs: LeaderEpochs) -> None:
        """The checkpoint is missing or damaged: every batch's header says under which leader it was
        written. Walks the first `count` segments.
        """
        epochs.clear()
        for segment in self.segments[:count]:
            try:
                for place in segment.walk(0):
                    if place.leader_epoch > epochs.latest():
                        epochs.assign(place.leader_epoch, place.base_offset)
            except CorruptSegment as error:
                logger.warning("%s: leader epochs are incomplete: %s", self.name, error)

    # -- checking ----------------------------------------------------------------------------------

    def recover(self, recovery_point: int, epochs: LeaderEpochs) -> int:
        """Check everything from the recovery point on, cut at the first damage; returns the end offset."""
        # A segment that ends exactly there is read too: as long as it grew, its log was synced, and not its
        # index of aborted transactions.
        first = max(
            (index for index, segment in enumerate(self.segments) if segment.base_offset < recovery_point),
            default=0,
        )
        if self.segments[0] not in self._ends:
            boundary = self.segments[first]
            self.trust(boundary, epochs)
            first = self.segments.index(boundary)
        if not epochs.entries():
            self.rebuild_epochs(first, epochs)
            recovery_point = min(recovery_point, self.segments[first].base_offset)
        self._rescanned = set(self.segments[first:])
        end_offset = self.segments[first].base_offset
        index = first
        while index < len(self.segments):
            segment = self.segments[index]
            self._ends.pop(segment, None)
            damage = self._misplacement(segment, end_offset) if index > first else None
            if damage is None:
                end_offset, damage = self._recover_segment(index, recovery_point, epochs)
            if damage is not None:
                if not self._outlives(index, damage, end_offset):
                    self._cut_end(index, damage)
                    break
                self._cut_within(index, damage, end_offset)
            index += 1
        for segment in self.segments[first:-1]:
            segment.write_indexes()
        return end_offset

    def _misplacement(self, segment: Segment, end_offset: int) -> Damage | None:
        """Whether the segment follows on the one before; only compaction may leave a gap between two."""
        if segment.base_offset < end_offset:
            return Damage(0, f"it begins below the end {end_offset} of the segment before it")
        if segment.base_offset > max(end_offset, self.gaps_end_offset):
            return Damage(0, f"the segment before it has lost its end, from offset {end_offset} on")
        return None

    def _recover_segment(
        self, index: int, recovery_point: int, epochs: LeaderEpochs
    ) -> tuple[int, Damage | None]:
        """Check one segment; returns the offset up to which it is good, and what is wrong there."""
        segment = self.segments[index]
        start = self._trusted_position(segment, recovery_point)
        scan = self._scan(index, start, epochs)
        if scan.damage is not None and 0 < start == scan.position:
            # The index may have led astray: nothing is cut before the segment has been read from its
            # beginning.
            self._forget_indexes(segment)
            scan = self._scan(index, 0, epochs)
        segment.synced_bytes = 0
        segment.first_timestamp_ms = first_timestamp_ms(segment, scan.position)
        segment.add_time_entry(segment.max_timestamp_ms, segment.max_timestamp_offset)
        return scan.next_offset, scan.damage

    def _scan(self, index: int, start: int, epochs: LeaderEpochs) -> CheckedScan:
        segment = self.segments[index]
        scan = CheckedScan(
            segment,
            start,
            limit_offset=self._limit(index),
            known_end_offset=self.known_end_offset,
            gapless=not self.settings.compacts and self.cleaned_offset <= segment.base_offset,
        )
        scan.run(epochs, self.settings.index_interval_bytes)
        for position, was, offset in scan.repaired:
            logger.warning(
                "%s: the batch at position %d of %s claimed base offset %d; its neighbours say %d, which is "
                "put right",
                self.name,
                position,
                file_name(segment.base_offset, LOG_SUFFIX),
                was,
                offset,
            )
        return scan

    def _trusted_position(self, segment: Segment, recovery_point: int) -> int:
        """A batch's beginning at or below the recovery point, from which on the segment is read; 0 at worst.

        Index entries below it are kept, if they are plausible; all others go.
        """
        offset_index, time_index = segment.offset_index, segment.time_index
        kept = (0, 0)
        if recovery_point > segment.base_offset and offset_index.load() and time_index.load():
            relative = recovery_point - segment.base_offset
            offset_index.keep(offset_index.count_below_key(relative))
            last = offset_index.last()
            if last is not None and last[1] + HEADER_BYTES <= segment.size_bytes:
                kept = last
        if not kept[1]:
            self._forget_indexes(segment)
            return 0
        time_index.keep(time_index.count_below_value(kept[0] + 1))
        self._take_up_timestamps(segment)
        return kept[1]

    # -- cutting -----------------------------------------------------------------------------------

    def _outlives(self, index: int, damage: Damage, end_offset: int) -> bool:
        """Whether the log goes on behind this damage: it is of what was on the disk before, and not torn by
        the crash.
        """
        if end_offset >= self.flushed_offset:
            return False
        return self._split(index, damage, end_offset) or self._limit(index) <= self.flushed_offset

    def _split(self, index: int, damage: Damage, end_offset: int) -> bool:
        """Give the whole batches behind the damage a segment of their own; whether there are any."""
        segment = self.segments[index]
        found = next_whole(segment, damage.position, end_offset, self._limit(index))
        if found is None or found[1] == segment.base_offset:
            return False
        position, base_offset = found
        fresh = self._segment(base_offset)
        copy_tail(self.files, segment, position, fresh.path(LOG_SUFFIX))
        fresh.size_bytes = segment.size_bytes - position
        self.segments.insert(index + 1, fresh)
        self._unindexed.add(fresh)
        if segment in self._rescanned:
            self._rescanned.add(fresh)
        return True

    def _cut_within(self, index: int, damage: Damage, end_offset: int) -> None:
        """Cut a segment whose successors stay: a gap is left, as compaction leaves them."""
        segment = self.segments[index]
        lost = segment.size_bytes - damage.position
        kept = keep_tail(self.files, segment, damage.position)
        cut_segment(segment, damage.position, end_offset)
        segment.sync()
        self.files.sync_directory(self.directory)
        self._count(lost, damage)
        logger.error(
            "%s: %d bytes were cut off in %s at position %d: %s. Offsets %d to %d are lost, which were on "
            "the "
            "disk before; readers go on behind them%s",
            self.name,
            lost,
            file_name(segment.base_offset, LOG_SUFFIX),
            damage.position,
            damage.reason,
            end_offset,
            self._limit(index) - 1,
            f". What was cut off is kept in {kept}" if kept else "",
        )

    def _cut_end(self, index: int, damage: Damage) -> None:
        """Cut the segment at the damage; everything behind it goes, and is kept aside if it holds records."""
        segment = self.segments[index]
        lost = segment.size_bytes - damage.position
        kept: list[str] = []
        if index and not damage.position:
            # Nothing of it is good: the log goes on in the segment before.
            self._take_out(segment, kept)
            del self.segments[index]
            index -= 1
        else:
            behind = records_behind(segment, damage.position)
            if behind is not None:
                self.traced_end_offset = max(self.traced_end_offset, behind)
                path = keep_tail(self.files, segment, damage.position)
                if path is not None:
                    kept.append(path)
            segment.cut(damage.position)
            segment.sync()
        for later in self.segments[index + 1 :]:
            lost += later.size_bytes
            self._take_out(later, kept)
        del self.segments[index + 1 :]
        self.files.sync_directory(self.directory)
        self._count(lost, damage)
        logger.log(
            logging.ERROR if kept else logging.WARNING,
            "%s: %d bytes were cut off in %s at position %d: %s. Everything before was checked and is "
            "kept.%s",
            self.name,
            lost,
            file_name(segment.base_offset, LOG_SUFFIX),
            damage.position,
            damage.reason,
            f" Whole batches stood behind it: they are kept in {', '.join(kept)}" if kept else "",
        )

    def _take_out(self, segment: Segment, kept: list[str]) -> None:
        if segment.size_bytes and whole_batch(segment, 0) is not None:
            self.traced_end_offset = max(self.traced_end_offset, records_behind(segment, 0) or 0)
            kept.append(keep_segment(self.files, segment))
        else:
            segment.remove()

    def _count(self, lost_bytes: int, damage: Damage) -> None:
        self.bytes_truncated += lost_bytes
        self.reason = self.reason or damage.reason
