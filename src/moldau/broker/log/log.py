"""One partition's log: its parts, and the few operations that span them.

    leader.append       leader_append.py ────┐
                                             ├──> appending/writer.py ──> partition_files.py, segment.py
    append_as_follower  follower_append.py ──┘         └──────> producers.py, epochs.py
    writer.flush_staged appending/writer.py: the turn's one write
    reader.read         reading/reader.py
    transactions        state/transactions.py
    fsync_job           flushing.py
    truncate_to         truncation.py

A Produce request calls the parts `leader` and `writer` themselves, a Fetch request `reader` and
`transactions`: a call handed through here would cost an append 3 %. Retention, compaction's replacements and
closing concern several parts and are written out here. All of it runs on the event loop's thread; of fsync
only the part in between does not.

Invariants: log_start_offset <= flushed_end_offset <= written_end_offset <= log_end_offset once a turn has
ended (the first may pass the second when records are deleted before they were flushed); a segment's base
offset is the end offset at the moment it was begun; the last segment is the only one that changes.

Not here: the high watermark (replication/), opening and recovery (recovery/recovery.py), many logs
(manager.py).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from moldau.broker.log.appending.append_result import Appended, AppendResult, Deferred, Refused, Repeated
from moldau.broker.log.appending.follower_append import FollowerAppend, FollowerAppended
from moldau.broker.log.appending.leader_append import CLIENT, LeaderAppend, Origin
from moldau.broker.log.appending.writer import Writer, is_disk_full
from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.partition_files import PartitionFiles
from moldau.broker.log.files.segment import LOG_SUFFIX, CorruptSegment, Segment
from moldau.broker.log.reading import timestamps
from moldau.broker.log.reading.reader import OffsetOutOfRange, Reader
from moldau.broker.log.reading.timestamps import Search as TimestampSearch
from moldau.broker.log.reading.timestamps import TimestampAndOffset
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.broker.log.state.producers import Producers
from moldau.broker.log.state.transactions import Transactions
from moldau.broker.log.upkeep import retention
from moldau.broker.log.upkeep.flushing import Flusher, FsyncJob
from moldau.broker.log.upkeep.truncation import CutJob, Truncation
from moldau.common.core.files import Files
from moldau.common.settings.topic import TopicSettings

__all__ = [
    "CLIENT",
    "AppendResult",
    "Appended",
    "CorruptSegment",
    "Deferred",
    "FollowerAppended",
    "Log",
    "OffsetOutOfRange",
    "Origin",
    "Refused",
    "Repeated",
    "TimestampAndOffset",
    "is_disk_full",
]

logger = logging.getLogger("moldau.log.log")

DAMAGE_LOGGED_MAX = 100
"""Of more damaged places in one log nothing new is learned."""
_NONE_UNREADABLE: Mapping[int, str] = MappingProxyType({})


class Log:
    """A partition's log in its directory. `recovery.open_log` makes one."""

    __slots__ = (
        "_cut",
        "_damage_logged",
        "damage",
        "epochs",
        "files",
        "flusher",
        "keeps_all",
        "leader",
        "offline_cause",
        "on_error",
        "on_roll",
        "partition",
        "producers",
        "reader",
        "settings",
        "topic",
        "topic_id",
        "transactions",
        "writer",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        settings: TopicSettings,
        descriptors: DescriptorLimit,
        segments: list[Segment],
        epochs: LeaderEpochs,
        producers: Producers,
        *,
        start_offset: int,
        end_offset: int,
        flushed_end_offset: int,
        snapshot_offsets: list[int],
        roll_jitter_ms: int = 0,
        topic_id: bytes | None = None,
        directory_dirty: bool = True,
    ) -> None:
        """`directory_dirty`: files may have been created that a power cut would still take away."""
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.settings = settings
        self.on_error: Callable[[Log, OSError], None] = lambda log, error: None
        """Called with every disk error, before it is returned or raised."""
        self.on_roll: Callable[[Log], None] = lambda log: None
        """Called when a segment is full: a good moment to sync it."""
        self.keeps_all = False
        """Whether retention by age and size stands still: the log is a mirror, whose start follows another's.
        """
        self.offline_cause = ""
        """Why this log alone is offline; empty when its directory is."""
        self.damage: tuple[int, str] | None = None
        """The offset of the last read that met a damaged batch, and what is wrong with that."""
        self.epochs = epochs
        self.producers = producers
        self._damage_logged: set[str] | None = None
        self._cut: CutJob | None = None  # not finished yet
        self.files = PartitionFiles(
            files, directory, descriptors, segments, snapshot_offsets, directory_dirty=directory_dirty
        )
        self.files.report_error = self._report_error
        self.reader = Reader(segments, start_offset, end_offset, epochs)
        self.flusher = Flusher(self.files, self.reader, epochs, flushed_end_offset)
        self.writer = Writer(
            f"{topic}-{partition}",
            self.files,
            self.reader,
            epochs,
            producers,
            self.flusher,
            settings,
            roll_jitter_ms=roll_jitter_ms,
        )
        self.writer.on_roll = self._rolled
        self.leader = LeaderAppend(self.writer, self.reader, producers, settings)
        """Appends of this broker as the partition's leader."""
        self.transactions = Transactions(producers, self.reader)

    def _report_error(self, error: OSError) -> None:
        self.on_error(self, error)

    def _rolled(self) -> None:
        self.on_roll(self)

    # -- what it is --------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.reader.start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets; what is only staged counts."""
        return self.writer.log_end_offset

    @property
    def written_end_offset(self) -> int:
        """The offset behind the last batch that is in the file: readers see everything before it."""
        return self.reader.end_offset

    @property
    def flushed_end_offset(self) -> int:
        """All log files are on the disk up to this offset."""
        return self.flusher.end_offset

    @property
    def size_bytes(self) -> int:
        """What the segments' log files hold, without what is staged."""
        return self.files.size_bytes

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, in order; the last one grows."""
        return tuple(self.files.segments)

    @property
    def directory(self) -> str:
        """The partition's directory."""
        return self.files.directory

    @property
    def offline(self) -> bool:
        """Whether the disk has failed: nothing more is written. What can be read, is."""
        return self.writer.offline

    def reconfigure(self, settings: TopicSettings) -> None:
        """From now on these settings hold."""
        self.settings = settings
        self.leader.reconfigure(settings)
        self.writer.reconfigure(settings)

    # -- appending ---------------------------------------------------------------------------------

    def append_as_follower(
        self, batches: memoryview, leader_epoch: int, now_ms: int, leader_log_start_offset: int = -1
    ) -> FollowerAppended:
        """Append what the partition's leader answered to a fetch (perhaps nothing), as `FollowerAppend` says;
        then follow the leader's log start offset (-1: unknown), as far as this log reaches.
        """
        result = FollowerAppend(self.writer).append(batches, leader_epoch, now_ms)
        if not result.error_code:
            self.increment_log_start_offset(min(leader_log_start_offset, self.written_end_offset))
        return result

    # -- forcing to disk ---------------------------------------------------------------------------

    def note_damage(self, offset: int, error: CorruptSegment) -> None:
        """A read at `offset` has met a damaged batch: for health, and the log, once."""
        text, logged = str(error), self._damage_logged or set()
        if text not in logged and len(logged) < DAMAGE_LOGGED_MAX:  # readers ask again and again
            self._damage_logged = logged | {text}
            logger.error("%s-%d cannot be read at offset %d: %s", self.topic, self.partition, offset, text)
        self.damage = (offset, text)

    @property
    def unreadable(self) -> Mapping[int, str]:
        """Batches that no consumer can read, by base offset, with the reason: those that were met, and do
        not end below the log's start."""
        if not self.reader.unreadable:
            return _NONE_UNREADABLE
        return {at: why for at, (_, why) in self.reader.unreadable_from(self.log_start_offset).items()}

    # -- searching ---------------------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: int) -> TimestampSearch:
        """A search for the first record below `end_offset` with at least this timestamp; it ends with None
        when there is none.
        """
        return timestamps.first_at_or_after(
            self.reader, timestamp_ms, min(end_offset, self.written_end_offset)
        )

    def max_timestamp(self, end_offset: int) -> TimestampSearch:
        """A search for the record with the largest timestamp below `end_offset`; it ends with None in a log
        without timestamps (KIP-734).
        """
        return timestamps.newest(self.reader, min(end_offset, self.written_end_offset))

    # -- leader epochs -----------------------------------------------------------------------------

    @property
    def latest_leader_epoch(self) -> int:
        """The highest leader epoch known to the log, or -1."""
        return self.epochs.latest()

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch up to this one and where it ended; (-1, -1) when unknown (KIP-101,
        KIP-320).
        """
        return self.epochs.end_offset(leader_epoch, self.log_end_offset)

    # -- cutting the end ---------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Drop everything from the batch that contains `offset` on, as `Truncation` says. OSError."""
        self._truncation().to(offset)

    def begin_truncation(self, offset: int) -> CutJob | None:
        """As `truncate_to`, but the cut is forced to the disk by the job; None when no record goes. Nothing
        is appended until the job has run, and `cut_done` was called.
        """
        return self._begun(self._truncation().begin(offset))

    def begin_anew(self, offset: int) -> CutJob:
        """As `truncate_fully_and_start_at`, but forced to the disk by the job, as in `begin_truncation`."""
        job = self._truncation().begin_fully(offset)
        self._begun(job)
        return job

    def _begun(self, job: CutJob | None) -> CutJob | None:
        if job is not None:
            self._cut = job
            self.producers.transactions.is_unknown = job.producers is not None
            self.writer.hold()
        return job

    @property
    def is_cutting(self) -> bool:
        """Whether a cut is not safe yet, and its producers are not known."""
        return self._cut is not None

    def cut_done(self, job: CutJob) -> None:
        """The job has run without an error."""
        assert self._cut is job
        self._cut = None
        if job.producers is not None:
            job.producers.finish()
        self.producers.transactions.is_unknown = False
        self.writer.release()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is empty and goes on at `offset`. OSError when the disk refuses."""
        self._truncation().fully(offset)

    def _truncation(self) -> Truncation:
        self.damage = None  # if it is still there, it will be met again
        self._damage_logged = None
        self.reader.forget_unreadable()
        return Truncation(self.files, self.reader, self.writer, self.flusher, self.epochs, self.producers)

    # -- cutting the beginning ---------------------------------------------------------------------

    def increment_log_start_offset(self, offset: int) -> bool:
        """Records below `offset` are deleted, if they were not before; their segments go at the next
        retention.
        """
        if not self.log_start_offset < offset <= self.written_end_offset:
            return False
        self.reader.start_offset = offset
        if self.damage is not None and self.damage[0] < offset:
            self.damage = None
        if self.epochs.truncate_start(offset):
            self.files.write_epochs(self.epochs)
        return True

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[str]:
        """Take segments that are too old, too many or deleted out of the log.

        Returns the names of their files, renamed to `.deleted`, to be removed after file.delete.delay.ms.
        """
        if self._cut is not None:
            return []  # a worker reads them, and a snapshot would hold producers of what was cut off
        files = self.files
        count = retention.expendable(
            self._stretches(),
            self.settings,
            self.log_start_offset,
            high_watermark,
            now_ms,
            by_settings=not self.keeps_all,
        )
        if not count:
            return []
        if count == len(files.segments):
            self.writer.roll(now_ms)
        removed: list[str] = []
        self.reader.forget()
        for segment in files.segments[:count]:
            removed += segment.rename_to_deleted()
            files.remove_snapshot(segment.base_offset)
        del files.segments[:count]
        files.changes += 1
        self.flusher.forget_removed()
        self.increment_log_start_offset(files.segments[0].base_offset)
        return removed

    def _stretches(self) -> list[retention.Stretch]:
        segments = self.files.segments
        stretches: list[retention.Stretch] = []
        for index, segment in enumerate(segments):
            last = index + 1 == len(segments)
            end_offset = self.log_end_offset if last else segments[index + 1].base_offset
            newest_ms = segment.max_timestamp_ms
            if newest_ms < 0 and (segment.size_bytes or last):
                # (One that compaction has emptied is as old as can be.)
                newest_ms = self.files.file_system.modified_ms(segment.path(LOG_SUFFIX))
            stretches.append(
                retention.Stretch(segment.base_offset, end_offset, segment.size_bytes, newest_ms)
            )
        return stretches

    # -- compaction --------------------------------------------------------------------------------

    def replace_segments(self, old: Sequence[Segment], fresh: Segment) -> None:
        """Compaction has made `fresh` of these neighbours; it has renamed the files (compaction/swap.py).

        The start offset stays: `fresh` has the first one's base offset, whatever is left in it. A producer
        snapshot belongs to a segment's beginning, so those of the other beginnings go; the states that they
        held can be had from an earlier one and the batches after it.
        """
        files = self.files
        place = files.segments.index(old[0])
        for segment in old:
            segment.close_descriptor()
        self.reader.forget()
        files.segments[place : place + len(old)] = [fresh]
        files.changes += 1
        self.flusher.forget_removed()
        for segment in old[1:]:
            files.remove_snapshot(segment.base_offset)

    # -- producers ---------------------------------------------------------------------------------

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have not written for so long; not in the middle of a turn."""
        if not self.writer.undo:
            self.producers.expire(now_ms, expiration_ms)

    # -- taking another log's place ----------------------------------------------------------------

    def take_over(self, other: "Log", now_ms: int) -> None:
        """This log has all batches of `other`, which is held: take over what batches do not say. OSError.

        A gap at the end (of records lost in a crash), epochs without records, producers of whom no batch is
        left, and guards of transactions that are about to begin.
        """
        if self.log_end_offset < other.written_end_offset:
            self.writer.roll(now_ms)
            self.writer.begin_at(other.written_end_offset, now_ms)
        self.epochs.replace(other.epochs.entries())
        self.files.write_epochs(self.epochs)
        self.writer.leader_epoch = self.epochs.latest()
        for producer_id, state in other.producers.states.items():
            self.producers.states.setdefault(producer_id, state)
        self.producers.verifications = other.producers.verifications
        self.writer.lost = other.writer.lost  # what was refused while the other was held comes here next
        self.increment_log_start_offset(other.log_start_offset)

    # -- the end -----------------------------------------------------------------------------------

    def prepare_close(self) -> FsyncJob | None:
        """Write everything that a clean close leaves behind; the job, if any, must run before
        `close(clean=False)`.
        """
        self.writer.flush_staged()
        if self._cut is not None and self._cut.producers is not None:
            self._cut.producers.run()  # a snapshot of what was cut off would be believed at the next start
            self._cut.producers.finish()
        files, producers = self.files, self.producers
        for segment in files.segments:
            if segment is files.active or segment.has_unwritten_indexes:
                segment.finish()
        if self.epochs.unwritten:
            self.epochs.write()
        if producers.states or files.snapshot_offsets or producers.all_expired:
            files.write_snapshot(self.log_end_offset, producers.states)
        return self.flusher.closing_job(self.log_end_offset)

    def close(self, *, clean: bool = True) -> None:
        """Let go of the files. A clean close leaves nothing for recovery to do; OSError when the disk refuses
        that.
        """
        try:
            if clean and not self.offline:
                job = self.prepare_close()
                if job is not None:
                    job.run()
                    self.flusher.job_done(job)
        finally:
            self.files.close_descriptors()

    def moved_to(self, directory: str) -> None:
        """The log's directory has been renamed."""
        self.files.changes += 1  # its new name is not on the disk yet
        self.epochs.moved_to(directory)
        self.files.moved_to(directory)

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition}, offsets {self.log_start_offset}-{self.log_end_offset})"
