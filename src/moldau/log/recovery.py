"""Opening a partition's directory, after a clean stop or a crash.

After a clean stop everything is believed: sizes, indexes, snapshots. After a crash, what lies below the
recovery point is on the disk; from there on every batch is read and checked (header, crc, order), the log is
cut at the first that is not whole, and whatever stood behind it goes. Indexes are rebuilt from there too, the
leader epochs completed from the batches, the producers' state from a snapshot and the headers that follow it,
and with that state the indexes of aborted transactions. Then the log is exactly a prefix of what was
appended, as long as everything forced to disk, at least.

    ....batch batch|batch batch ba~~~            |: recovery point, checked from here
                                ^ cut here

What was half done is finished or forgotten first (leftovers.py); Kafka's preallocated indexes lose their
padding. Between two segments there may be a gap that compaction has left, but only below the recovery point
or what is known to be compacted: elsewhere a gap is a loss.

Runs in recovery threads, before the log is known to the event loop. Not here: many logs at once (manager.py).
"""

import logging
import random
from typing import NamedTuple

from moldau.core.crc import crc32c
from moldau.core.files import Files
from moldau.core.settings.topic import TopicSettings
from moldau.log.checkpoints import read_topic_id
from moldau.log.descriptors import DescriptorLimit
from moldau.log.epochs import LeaderEpochs
from moldau.log.leftovers import Leftovers
from moldau.log.log import Log
from moldau.log.producers import Producers
from moldau.log.scan import index_segment, rebuild_producers
from moldau.log.segment import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
    file_name,
)
from moldau.log.transaction_index import DamagedIndex
from moldau.records.batch import HEADER, HEADER_BYTES, LENGTH_MIN, LENGTH_OVERHEAD, MAGIC, NO_TIMESTAMP

_CHUNK_BYTES = 4 * 1024 * 1024

logger = logging.getLogger(__name__)


class UnreadableLog(Exception):
    """The directory holds something that must not be touched: opening it would destroy it."""


class Damage(NamedTuple):
    """Why a log was cut."""

    position: int
    reason: str


class Recovered(NamedTuple):
    """An opened log, and what opening it cost."""

    log: Log
    bytes_truncated: int
    reason: str


def open_log(
    files: Files,
    directory: str,
    topic: str,
    partition: int,
    settings: TopicSettings,
    *,
    descriptors: DescriptorLimit | None = None,
    clean: bool = False,
    recovery_point: int = 0,
    cleaned_offset: int = 0,
    log_start_offset: int = 0,
    now_ms: int = 0,
    source: random.Random | None = None,
) -> Recovered:
    """Open the partition's directory, creating it when it is missing.

    `clean`: the broker stopped in order. `recovery_point`, `log_start_offset` and `cleaned_offset` (up to
    where compaction has come) are those of the checkpoints (0: unknown). OSError when the disk fails;
    UnreadableLog when the directory holds formats older than magic 2.
    """
    opening = _Opening(
        files, directory, f"{topic}-{partition}", settings, descriptors or DescriptorLimit(), now_ms
    )
    if not clean or recovery_point < 0:
        recovery_point = max(0, recovery_point)
    opening.list_files()
    opening.load_segments()
    epochs = LeaderEpochs(files, directory)
    epochs.load()
    epochs_before = epochs.entries()
    if clean:
        opening.trust(opening.segments)
        end_offset = opening.end_offset()
    else:
        opening.gaps_end_offset = max(recovery_point, cleaned_offset)
        end_offset = opening.recover(recovery_point, epochs)
    segments = opening.segments
    start_offset = max(log_start_offset, segments[0].base_offset)
    if start_offset > end_offset:
        # The log has lost its end below the start that was promised: nothing in it may be shown.
        opening.start_afresh(start_offset)
        end_offset = start_offset
    epochs.truncate_end(end_offset)
    epochs.truncate_start(start_offset)
    if epochs.entries() != epochs_before:
        epochs.write()
    opening.drop_snapshots_beyond(end_offset)
    producers = opening.producers(end_offset, whole=not clean)
    jitter_ms = min(settings.segment_jitter_ms, settings.segment_ms)
    log = Log(
        files,
        directory,
        topic,
        partition,
        settings,
        opening.descriptors,
        segments,
        epochs,
        producers,
        start_offset=start_offset,
        end_offset=end_offset,
        flushed_end_offset=end_offset
        if clean
        else min(end_offset, max(recovery_point, segments[0].base_offset)),
        snapshot_offsets=opening.snapshot_offsets,
        roll_jitter_ms=source.randrange(jitter_ms) if source is not None and jitter_ms > 0 else 0,
        topic_id=read_topic_id(files, directory),
        directory_dirty=not clean,
    )
    log.last_flush_ms = now_ms
    for segment in segments:
        segment.close_descriptor()
    return Recovered(log, opening.bytes_truncated, opening.reason)


class _Opening:
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
        self.gaps_end_offset = 0
        """Compaction leaves gaps between segments, but only below this offset."""
        self._unindexed: set[Segment] = set()
        """Segments whose index of aborted transactions has to be built anew."""
        self._rescanned: set[Segment] = set()
        self._names: list[str] = []

    # -- what is there -----------------------------------------------------------------------------

    def list_files(self) -> None:
        """Read the directory; finish or forget what was under way when the broker stopped."""
        if not self.files.is_directory(self.directory):
            self.files.make_directory(self.directory)
        self._names = Leftovers(self.files, self.directory).settle()
        self.snapshot_offsets = sorted(
            _offset_in(name)
            for name in self._names
            if name.endswith(SNAPSHOT_SUFFIX) and name[:20].isdecimal()
        )

    def _segment(self, base_offset: int) -> Segment:
        return Segment(self.files, self.directory, base_offset, self.descriptors, self.now_ms)

    def load_segments(self) -> None:
        """An object for every segment, with its size; an empty first segment when there is none."""
        bases = sorted(
            _offset_in(name)
            for name in self._names
            if name.endswith(LOG_SUFFIX) and len(name) == 20 + len(LOG_SUFFIX) and name[:20].isdecimal()
        )
        for base_offset in bases:
            segment = self._segment(base_offset)
            segment.size_bytes = self.files.file_size_bytes(segment.path(LOG_SUFFIX))
            self.segments.append(segment)
        if not self.segments:
            self.start_afresh(0)

    def start_afresh(self, offset: int) -> None:
        """One empty segment."""
        for segment in self.segments:
            segment.remove()
        fresh = self._segment(offset)
        fresh.create()
        self.segments[:] = [fresh]

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

    # -- after a clean stop ------------------------------------------------------------------------

    def trust(self, segments: list[Segment]) -> None:
        """Take up the index files; rebuild those that are missing or cannot be."""
        for segment in segments:
            segment.synced_bytes = segment.size_bytes
            plausible = segment.offset_index.load() and segment.time_index.load()
            try:
                segment.transaction_index.load(segment.base_offset)
            except DamagedIndex as error:
                logger.warning("%s: an index is built anew: %s", self.name, error)
                self._unindexed.add(segment)
            last = segment.offset_index.last() if plausible else None
            if not plausible or (last is not None and last[1] >= max(1, segment.size_bytes)):
                self._rebuild_indexes(segment)
            else:
                newest = segment.time_index.last()
                if newest is not None:
                    segment.max_timestamp_ms = newest[0]
                    segment.max_timestamp_offset = segment.base_offset + newest[1]
                if segment is self.segments[-1] and segment.size_bytes:
                    segment.first_timestamp_ms = next(segment.walk(0)).max_timestamp_ms

    def _forget_indexes(self, segment: Segment) -> None:
        segment.offset_index.keep(0)
        segment.time_index.keep(0)
        segment.max_timestamp_ms, segment.max_timestamp_offset = NO_TIMESTAMP, segment.base_offset

    def _rebuild_indexes(self, segment: Segment) -> None:
        if segment.size_bytes:
            logger.info("%s: rebuilding the indexes of %r", self.name, segment)
        self._unindexed.add(segment)
        self._forget_indexes(segment)
        index_segment(segment, self.settings.index_interval_bytes)
        first = next(segment.walk(0), None)
        segment.first_timestamp_ms = first.max_timestamp_ms if first else NO_TIMESTAMP
        if segment.size_bytes:
            segment.finish()

    def end_offset(self) -> int:
        """The offset behind the last batch of the last segment."""
        segment = self.segments[-1]
        last = segment.offset_index.last()
        end_offset = segment.base_offset
        for place in segment.walk(last[1] if last else 0):
            end_offset = place.last_offset + 1
        return end_offset

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

    # -- after a crash -----------------------------------------------------------------------------

    def recover(self, recovery_point: int, epochs: LeaderEpochs) -> int:
        """Check everything from the recovery point on, cut at the first damage; returns the end offset."""
        # A segment that ends exactly there is read too: as long as it grew, its log was synced, and not its
        # index of aborted transactions.
        first = max(
            (index for index, segment in enumerate(self.segments) if segment.base_offset < recovery_point),
            default=0,
        )
        self.trust(self.segments[:first])
        if not epochs.entries():
            self._rebuild_epochs(self.segments[:first], epochs)
            recovery_point = min(recovery_point, self.segments[first].base_offset)
        self._rescanned = set(self.segments[first:])
        end_offset = self.segments[first].base_offset
        for index in range(first, len(self.segments)):
            segment = self.segments[index]
            damage = self._misplacement(segment, end_offset) if index > first else None
            if damage is None:
                end_offset, damage = self._recover_segment(segment, recovery_point, epochs)
            if damage is not None:
                self._cut(index, damage)
                break
        for segment in self.segments[first:-1]:
            segment.write_indexes()
        return end_offset

    def _rebuild_epochs(self, segments: list[Segment], epochs: LeaderEpochs) -> None:
        """The checkpoint is missing or damaged: every batch's header says under which leader it was
        written.
        """
        for segment in segments:
            for place in segment.walk(0):
                if place.leader_epoch > epochs.latest():
                    epochs.assign(place.leader_epoch, place.base_offset)

    def _misplacement(self, segment: Segment, end_offset: int) -> Damage | None:
        """Whether the segment follows on the one before; only compaction may leave a gap between two."""
        if segment.base_offset < end_offset:
            return Damage(0, f"it begins below the end {end_offset} of the segment before it")
        if segment.base_offset > max(end_offset, self.gaps_end_offset):
            return Damage(0, f"the segment before it has lost its end, from offset {end_offset} on")
        return None

    def _recover_segment(
        self, segment: Segment, recovery_point: int, epochs: LeaderEpochs
    ) -> tuple[int, Damage | None]:
        """Check one segment; returns the offset up to which it is good, and what is wrong there."""
        start = self._trusted_position(segment, recovery_point)
        scan = _Scan(segment, start)
        scan.run(epochs, self.settings.index_interval_bytes)
        if scan.damage is not None and 0 < start == scan.position:
            # The index may have led astray: nothing is cut before the segment has been read from its
            # beginning.
            self._forget_indexes(segment)
            scan = _Scan(segment, 0)
            scan.run(epochs, self.settings.index_interval_bytes)
        segment.synced_bytes = 0
        first = next(segment.walk(0, scan.position), None)
        segment.first_timestamp_ms = first.max_timestamp_ms if first else NO_TIMESTAMP
        segment.add_time_entry(segment.max_timestamp_ms, segment.max_timestamp_offset)
        return scan.next_offset, scan.damage

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
        newest = time_index.last()
        if newest is not None:
            segment.max_timestamp_ms, segment.max_timestamp_offset = (
                newest[0],
                segment.base_offset + newest[1],
            )
        return kept[1]

    def _cut(self, index: int, damage: Damage) -> None:
        """Cut the segment at the damage; everything behind it goes."""
        segment = self.segments[index]
        lost = segment.size_bytes - damage.position
        if index and not damage.position:
            # Nothing of it is good: the log goes on in the segment before.
            segment.remove()
            del self.segments[index]
            index -= 1
        else:
            segment.cut(damage.position)
            segment.sync()
        for later in self.segments[index + 1 :]:
            lost += later.size_bytes
            later.remove()
        del self.segments[index + 1 :]
        self.files.sync_directory(self.directory)
        self.bytes_truncated, self.reason = lost, damage.reason
        logger.warning(
            "%s: %d bytes were cut off in %s at position %d: %s. Everything before was checked and is kept.",
            self.name,
            lost,
            file_name(segment.base_offset, LOG_SUFFIX),
            damage.position,
            damage.reason,
        )


class _Scan:
    """Reads a segment batch by batch, checks each, and notes what it says in the indexes and the leader
    epochs.
    """

    def __init__(self, segment: Segment, start: int) -> None:
        self.segment = segment
        self.position = start
        self.next_offset = segment.base_offset
        self.damage: Damage | None = None
        self._expected_offset = segment.base_offset
        self._chunk = memoryview(b"")
        self._chunk_start = start
        self._start = start

    def run(self, epochs: LeaderEpochs, index_interval_bytes: int) -> None:
        """Go on until the end or the first damage."""
        segment = self.segment
        since_index = 0
        while self.position < segment.size_bytes and self.damage is None:
            batch = self._next()
            if batch is None:
                return
            header = HEADER.unpack_from(batch)
            last_offset = header[0] + header[6]
            if header[8] > segment.max_timestamp_ms:
                segment.max_timestamp_ms, segment.max_timestamp_offset = header[8], last_offset
            if since_index > index_interval_bytes and self.position > self._start:
                segment.add_index_entry(
                    last_offset, self.position, segment.max_timestamp_ms, segment.max_timestamp_offset
                )
                since_index = 0
            since_index += len(batch)
            if header[2] > epochs.latest():
                epochs.assign(header[2], header[0])
            self.position += len(batch)
            self.next_offset = self._expected_offset = last_offset + 1

    def _next(self) -> memoryview | None:
        """The batch at the position, checked; None when it is damaged, and `damage` says how."""
        head = self._bytes(HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return self._bad(f"a batch's header breaks off after {len(head)} bytes")
        header = HEADER.unpack_from(head)
        length, magic = header[1], header[3]
        if magic in (0, 1) and self.position == 0 and length > 0:
            raise UnreadableLog(
                f"{self.segment.path(LOG_SUFFIX)} has batches of magic {magic}, older than magic {MAGIC}"
            )
        if length < LENGTH_MIN or magic != MAGIC:
            return self._bad("there is no batch header" if any(head) else "there are only zeros")
        size = length + LENGTH_OVERHEAD
        if self.position + size > self.segment.size_bytes:
            return self._bad(
                f"a batch of {size} bytes breaks off after {self.segment.size_bytes - self.position}"
            )
        batch = self._bytes(size)
        if len(batch) < size:
            return self._bad(f"a batch of {size} bytes breaks off after {len(batch)}")
        if crc32c(batch[21:]) != header[4]:
            return self._bad("a batch's crc does not match its bytes")
        if header[0] < self._expected_offset or header[6] < 0:
            return self._bad(f"a batch claims offset {header[0]} after {self._expected_offset - 1}")
        return batch

    def _bytes(self, size: int) -> memoryview:
        """`size` bytes from the position on, or what is left; from the chunk in memory where it suffices."""
        at = self.position - self._chunk_start
        if at + size > len(self._chunk):
            self._chunk = memoryview(self.segment.read(self.position, max(size, _CHUNK_BYTES)))
            self._chunk_start, at = self.position, 0
        return self._chunk[at : at + size]

    def _bad(self, reason: str) -> memoryview | None:
        self.damage = Damage(self.position, reason)
        return None


def _offset_in(name: str) -> int:
    return int(name[:20])
