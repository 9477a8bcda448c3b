"""A cleaning job and its result. Plain values only: both go to and from the worker process as JSON.

    log:    [segment 0   ][segment 400 ][segment 900 ][active 1300 ...
             cleaned before     | dirty, decided     | first_uncleanable_offset
                                first_dirty_offset

A job reads every closed segment from the log's beginning, and remembers the keys of the dirty range only: a
record goes when the dirty range holds a later one of its key. All other inputs (the time, the producers, the
aborted transactions) are recorded when the job is made, so a job's outcome depends on the job and the files
alone. What happens to the log meanwhile lies above `first_uncleanable_offset`, except that segments may be
deleted at the beginning; then the broker drops the result.

Not here: which log is cleaned and when (selection.py), doing it (clean.py), putting the result into the log
(swap.py).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from moldau.broker.log.state.transaction_index import AbortedTransaction

CLEANED_SUFFIX = ".cleaned"
"""Ends the names of what a job writes: `<base offset>.log.cleaned` and so on."""
NO_DATA_OFFSET = -1


class CleanError(Exception):
    """A job has failed: nothing of the log has changed, and what the job wrote is gone or will be swept."""


class Cancelled(CleanError):
    """The job was told to stop. Not a fault."""


class UnreadableBatch(NamedTuple):
    """A batch whose crc is right, and whose records nobody can read."""

    base_offset: int
    last_offset: int
    reason: str
    """The cause alone, without the place."""


class Uncleanable(CleanError):
    """A segment is damaged (a wrong crc, a batch cut short), a batch is too large, or the records of `batch`
    cannot be read: a retry will not help."""

    def __init__(self, message: str, batch: UnreadableBatch | None = None) -> None:
        super().__init__(message)
        self.batch = batch


class WorkerLost(CleanError):
    """The worker process died (killed, out of memory) or could not start: retry after a pause."""


class Source(NamedTuple):
    """One closed segment: a file that does not change while the job runs."""

    base_offset: int
    end_offset: int
    """The base offset of the segment that follows it in the log; all its batches lie below."""
    size_bytes: int
    """Of the .log file."""


class LastRecord(NamedTuple):
    """The last that a live producer has written, which must survive so that its state can be rebuilt.

    `last_data_offset` is the last offset of its last batch of data in this epoch; NO_DATA_OFFSET when a
    transaction marker is the last sign of it, which then is kept for its epoch.
    """

    producer_id: int
    producer_epoch: int
    last_data_offset: int


@dataclass(frozen=True, slots=True)
class CleanJob:
    """One round of cleaning one log.

    `sources` are the segments from the log's first one on that begin below `first_uncleanable_offset`, in
    order and without a gap; the active segment is never among them. `first_uncleanable_offset` is a batch's
    or a segment's beginning, and at most the last stable offset: whatever lies below it is decided. It may
    lie inside the last source; what is above it is copied as it stands. `aborted` are all aborted
    transactions that overlap the sources, from the first base offset to the last end offset
    (`Transactions.aborted_in`), also those whose marker lies behind. `last_records` has one entry a live
    producer.
    """

    directory: str
    topic: str
    partition: int
    sources: tuple[Source, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    delete_retention_ms: int
    aborted: tuple[AbortedTransaction, ...] = ()
    last_records: tuple[LastRecord, ...] = ()
    segment_bytes: int = 1 << 30
    """How large several sources together may be to become one segment; a single larger one stays as it is."""
    segment_index_bytes: int = 10 << 20
    """The same for their offset indexes, and for their time indexes."""
    index_interval_bytes: int = 4096
    dedupe_buffer_bytes: int = 128 << 20
    """Memory limit of the map of keys (log.cleaner.dedupe.buffer.size / log.cleaner.threads)."""
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 << 10
    """How much is read and written at a time; a larger batch takes what it needs."""
    io_bytes_per_second: float = math.inf
    """Bytes read plus bytes written in a second, at most."""


class Group(NamedTuple):
    """Neighbouring sources that have become one segment.

    On the disk, synced, are `<base>.log.cleaned`, `.index.cleaned`, `.timeindex.cleaned`, and
    `.txnindex.cleaned` when `aborted_count` is not 0. The segment may be empty (0 bytes). The base offset is
    the first source's. The .log file's modification time is that of the last source's.
    """

    sources: tuple[int, ...]
    """The base offsets of the sources it replaces."""
    base_offset: int
    size_bytes: int
    aborted_count: int
    max_timestamp_ms: int
    """-1 when there is none."""
    delete_horizon_ms: int
    """When the earliest tombstone or marker in it may go; -1 when it has none."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a job has done. Records and bytes are those of the filtering, unless said otherwise."""

    mapped_bytes: int = 0
    """Read to find out the dirty range's keys."""
    mapped_records: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records_in: int = 0
    records_out: int = 0
    keyless_records: int = 0
    """Records without a key, which a compacted log cannot keep (they were written before it was one)."""
    keys: int = 0
    """Different keys in the dirty range."""
    keys_max: int = 0
    """How many the map had room for."""
    mapping_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def map_load(self) -> float:
        """How full the map was, 0 to 1."""
        return self.keys / self.keys_max if self.keys_max else 0.0


@dataclass(frozen=True, slots=True)
class CleanResult:
    """A job's outcome: which files replace which, and up to where the log is clean now.

    `groups` cover the first sources of the job, in order and without a gap; the sources behind them were not
    touched. `cleaned_until_offset` is the next round's first dirty offset: `first_uncleanable_offset`, or
    below it when the map was full (then another round should follow at once).
    """

    groups: tuple[Group, ...]
    cleaned_until_offset: int
    statistics: Statistics


class Progress(NamedTuple):
    """A job's progress; reported a few times a second at most."""

    phase: str
    """"mapping" or "cleaning"."""
    bytes_done: int
    bytes_total: int
    """Of both phases together; it may shrink when the map is full early."""


OnProgress: TypeAlias = Callable[[Progress], None]
Done: TypeAlias = Callable[[CleanResult | Exception], None]
"""Called once a job, on the caller's own thread: the result; a CleanError; or the OSError of the disk."""


class CleaningWorker(Protocol):
    """Runs jobs, one at a time. All calls come from one thread (the event loop's), and so do the answers."""

    @property
    def busy(self) -> bool:
        """Whether a job runs."""

    def run(self, job: CleanJob, on_progress: OnProgress, done: Done) -> None:
        """Begin a job; RuntimeError while another runs. `done` is called exactly once, perhaps before this
        returns.
        """

    def cancel(self) -> None:
        """Stop the running job soon, if any; its `done` gets `Cancelled` (or the result that was faster)."""

    def close(self) -> None:
        """End for good, at once; a running job's `done` gets `Cancelled`."""
