"""Opens a partition's segments, one after the other: each is either trusted or checked.

A segment that is trusted is looked at where it ends (segment_end.py); one that is checked (`recover`) is read
batch by batch (checked_scan.py). What is damaged is cut off (cutting.py).

Not here: which of the two applies to a segment, and making the log (recovery.py).
"""

import logging
from collections.abc import Mapping
from itertools import chain, pairwise

from moldau.broker.log.files.segment import (
    LOG_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    CorruptSegment,
    Segment,
    file_name,
)
from moldau.broker.log.recovery.checked_scan import UNLIMITED, CheckedScan
from moldau.broker.log.recovery.cutting import Cutting
from moldau.broker.log.recovery.damage import Damage
from moldau.broker.log.recovery.found_segments import FoundSegments
from moldau.broker.log.recovery.index_check import IndexCheck
from moldau.broker.log.recovery.rebuild import rebuild_producers
from moldau.broker.log.recovery.segment_end import SegmentEnd, first_timestamp_ms
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.broker.log.state.producers import Producers

ANY_OFFSET = 1 << 62

logger = logging.getLogger("moldau.log.opening")


class Opening:
    """One directory being opened."""

    def __init__(self, found: FoundSegments, *, sole_copy: bool, cleaned_offset: int) -> None:
        """`cleaned_offset`: compaction has come so far, and leaves gaps below."""
        self._found = found
        self._indexes = IndexCheck(found)
        self._cutting = Cutting(found, sole_copy=sole_copy)
        self._sole_copy = sole_copy
        self._cleaned_offset = cleaned_offset
        self.gaps_end_offset = 0
        """Behind a gap from this offset on, segments are not kept."""
        self.flushed_offset = 0
        """All below was on the disk: what follows on damage there is kept."""
        self.known_end_offset = -1
        """Where the log ended when it was last seen whole, or -1."""
        self._ends: dict[Segment, SegmentEnd] = {}

    def trust(self, until: Segment | None, epochs: LeaderEpochs) -> None:
        """Use the segments before `until` (None: all) as they are, if they end as they should; rebuild
        missing or wrong indexes; cut off damage, except in the log's last segment.
        """
        segments = self._found.segments
        index = 0
        while index < len(segments) and segments[index] is not until:
            segment = segments[index]
            segment.synced_bytes = segment.size_bytes
            limit_offset = self._found.limit(index)
            end = self._indexes.take_up(segment, limit_offset)
            if end.problem and limit_offset != UNLIMITED:
                end = self._mend(index, epochs)
            self._ends[segment] = end
            index += 1
        if segments[-1] in self._ends:
            segments[-1].first_timestamp_ms = first_timestamp_ms(segments[-1])

    def _mend(self, index: int, epochs: LeaderEpochs) -> SegmentEnd:
        """A segment before the last does not end as it should: check it from its last indexed batch on."""
        segment = self._found.segments[index]
        end_offset, damage = self._recover_segment(index, ANY_OFFSET, epochs)
        segment.write_indexes()
        if damage is not None and self._sole_copy:
            self._cutting.split(index, damage, end_offset)
            self._cutting.cut_within(index, damage, end_offset)
        elif damage is not None:
            self._found.rescanned.add(segment)
            self._cutting.cut_end(index, damage)
        return SegmentEnd(segment.size_bytes, end_offset, None, False, "")

    def start_afresh(self, offset: int) -> None:
        """Drop the whole log: one empty segment at this offset."""
        self._found.start_afresh(offset)
        self._ends.clear()

    def end_of_last(self) -> SegmentEnd:
        """How the last segment ends, once it is trusted."""
        return self._ends[self._found.segments[-1]]

    def last_batch(self) -> tuple[int, int] | None:
        """(base offset, leader epoch) of the last batch that `trust` has seen."""
        for segment in reversed(self._found.segments):
            end = self._ends.get(segment)
            if end is not None and end.last is not None:
                return end.last.base_offset, end.last.leader_epoch
        return None

    @property
    def checked(self) -> bool:
        """Whether any segment was read as after a crash, or cut."""
        return bool(self._found.rescanned or self._found.bytes_truncated)

    def producers_seen(self) -> bool:
        """Whether `trust` has come across batches of idempotent producers."""
        return any(end.produced for end in self._ends.values())

    def judge_gaps(self, end_offset: int) -> int:
        """Deal with each gap between trusted segments that compaction has not left: a segment is missing
        there.

        A log without other replicas continues behind it, with a warning; any other ends there. Returns the
        log's end.
        """
        segments = self._found.segments
        if self._found.settings.compacts:
            return end_offset
        for index, (before, after) in enumerate(pairwise(segments), 1):
            end = self._ends.get(before)
            if (
                end is None
                or end.next_offset >= after.base_offset
                or after.base_offset <= self._cleaned_offset
            ):
                continue
            if not self._sole_copy:
                reason = f"offsets {end.next_offset} to {after.base_offset - 1} are missing before it"
                self._cutting.cut_end(index, Damage(0, reason))
                before.first_timestamp_ms = first_timestamp_ms(before)
                return end.next_offset
            logger.error(
                "%s: offsets %d to %d are missing between %s and %s: readers go on behind them. If a file "
                "was moved away, stop the broker and put it back",
                self._found.name,
                end.next_offset,
                after.base_offset - 1,
                file_name(before.base_offset, LOG_SUFFIX),
                file_name(after.base_offset, LOG_SUFFIX),
            )
        return end_offset

    def check_aborts(self, checksums: Mapping[int, int], *, complete: bool) -> None:
        """Compare the indexes of aborted transactions with what was noted of them, by segment. `complete`: a
        segment that is not named had none.
        """
        for segment in self._found.segments:
            expected = checksums.get(segment.base_offset, 0 if complete else None)
            if expected is None or segment in self._found.rescanned or segment in self._found.unindexed:
                continue
            if segment.transaction_index.checksum() != expected:
                logger.warning(
                    "%s: %s is missing or damaged: it is rebuilt",
                    self._found.name,
                    file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX),
                )
                self._found.unindexed.add(segment)

    def producers(self, end_offset: int, *, whole: bool) -> Producers:
        """The producers' state at the log's end, and with it every index of aborted transactions that is
        missing or damaged.

        After a clean stop (not `whole`) the state is the snapshot's.
        """
        segments = self._found.segments
        for place, segment in enumerate(segments):
            if segment in self._found.unindexed and segment not in self._found.rescanned:
                stop = segments[place + 1].base_offset if place + 1 < len(segments) else end_offset
                self._rebuild(Producers(), stop, [segment])
        producers = Producers()
        if whole or self._found.snapshot_offsets:
            stale = [segment for segment in segments if segment in self._found.rescanned]
            self._rebuild(producers, end_offset, stale)
        return producers

    def _rebuild(self, producers: Producers, end_offset: int, stale: list[Segment]) -> None:
        rebuild_producers(
            self._found.files,
            self._found.directory,
            self._found.snapshot_offsets,
            self._found.segments,
            producers,
            end_offset,
            stale=stale,
        )

    def rebuild_epochs(self, count: int, epochs: LeaderEpochs) -> None:
        """The checkpoint is missing or damaged: every batch's header says under which leader it was
        written. Walks the first `count` segments. An epoch above that of the next batch is damaged: no crc
        covers it.
        """
        epochs.clear()
        for segment in self._found.segments[:count]:
            try:
                for place, behind in pairwise(chain(segment.walk(0), (None,))):
                    assert place is not None
                    if place.leader_epoch > epochs.latest() and (
                        behind is None or behind.leader_epoch >= place.leader_epoch
                    ):
                        epochs.assign(place.leader_epoch, place.base_offset)
            except CorruptSegment as error:
                logger.warning("%s: leader epochs are incomplete: %s", self._found.name, error)

    def recover(self, recovery_point: int, epochs: LeaderEpochs) -> int:
        """Check everything from the recovery point on, cut at the first damage; returns the end offset."""
        # A segment that ends exactly there is read too: as long as it grew, its log was synced, and not its
        # index of aborted transactions.
        first = max(
            (
                index
                for index, segment in enumerate(self._found.segments)
                if segment.base_offset < recovery_point
            ),
            default=0,
        )
        if self._found.segments[0] not in self._ends:
            boundary = self._found.segments[first]
            self.trust(boundary, epochs)
            if boundary in self._found.segments:
                first = self._found.segments.index(boundary)
            else:
                # The log was cut before it.
                first, recovery_point = len(self._found.segments) - 1, ANY_OFFSET
        if not epochs.entries():
            self.rebuild_epochs(first, epochs)
            recovery_point = min(recovery_point, self._found.segments[first].base_offset)
        self._found.rescanned.update(self._found.segments[first:])
        end_offset = self._found.segments[first].base_offset
        index = first
        while index < len(self._found.segments):
            segment = self._found.segments[index]
            self._ends.pop(segment, None)
            damage = self._misplacement(segment, end_offset) if index > first else None
            if damage is None:
                end_offset, damage = self._recover_segment(index, recovery_point, epochs)
            if damage is not None:
                if not self._cutting.log_goes_on(index, damage, end_offset, self.flushed_offset):
                    self._cutting.cut_end(index, damage)
                    break
                self._cutting.cut_within(index, damage, end_offset)
            index += 1
        for segment in self._found.segments[first:-1]:
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
        segment = self._found.segments[index]
        start = self._indexes.trusted_position(segment, recovery_point)
        scan = self._scan(index, start, epochs)
        if scan.damage is not None and 0 < start == scan.position:
            # The index may be wrong: nothing is cut before the segment has been read from its
            # beginning.
            self._indexes.forget(segment)
            scan = self._scan(index, 0, epochs)
        segment.synced_bytes = 0
        segment.first_timestamp_ms = first_timestamp_ms(segment, scan.position)
        segment.add_time_entry(segment.max_timestamp_ms, segment.max_timestamp_offset)
        return scan.next_offset, scan.damage

    def _scan(self, index: int, start: int, epochs: LeaderEpochs) -> CheckedScan:
        segment = self._found.segments[index]
        scan = CheckedScan(
            segment,
            start,
            limit_offset=self._found.limit(index),
            known_end_offset=self.known_end_offset,
            gapless=not self._found.settings.compacts and self._cleaned_offset <= segment.base_offset,
        )
        scan.run(epochs, self._found.settings.index_interval_bytes)
        for position, was, offset in scan.repaired:
            logger.warning(
                "%s: the batch at position %d of %s claimed base offset %d; its neighbours say %d, which is "
                "put right",
                self._found.name,
                position,
                file_name(segment.base_offset, LOG_SUFFIX),
                was,
                offset,
            )
        return scan
