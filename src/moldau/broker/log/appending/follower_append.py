"""Appending as follower: batches that the partition's leader answered to a fetch, with its offsets and
epochs.

    fetch answer   | 40..44 | 45..45 | 47..49 | 50..~~~          47: compaction left a gap at the leader
                     checked, all of them        cut off: the answer's byte limit ended here
                   ─────────── one write ──────

Everything is checked before anything is written: header, length, crc, offsets that ascend from the log's end
on, leader epochs that do not fall, markers that can be read. One bad batch refuses all: the follower fetches
them again. What follows a batch of a later epoch than the partition's is left out without an error: the
sender lost its leadership while it answered (as in Kafka, KAFKA-18723).

A good answer is written at once, straight from the receive buffer; nothing is staged. Producers, open
transactions and leader epochs follow from the batches (writer.py); producers are not judged, since the leader
has done that.

DeleteRecords may have put the leader's log start into the middle of a batch. A follower without records,
which begins there, gets that batch whole, and its log begins with it.

One call takes at most `BATCHES_MAX`, so that it does not hold the event loop for long (4 microseconds a batch
were measured); the caller goes on with the rest of the answer in a later turn, or fetches it again.

Invariant: `FollowerAppended` tells exactly what is in the log, also when the disk fails between two segments.

Not here: which offset to fetch, truncation to where two logs agree (replication/).
"""

from typing import NamedTuple

from moldau.broker.log.appending.batch_error import BatchError
from moldau.broker.log.appending.writer import Writer
from moldau.broker.log.files.segment import RELATIVE_OFFSET_MAX
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import BatchView, CorruptBatch, iter_batches
from moldau.common.records.control import parse_end_transaction_marker

BATCHES_MAX = 1500
OFFSET_MAX = 2**63 - 1
"""The protocol has no log end offset above."""
CONTROL_BYTES_MAX = 4096
"""Of a batch of markers, unpacked: it is read here, and another cluster (mirror/) may send anything; Kafka's
own have less than 100 bytes.
"""


class FollowerAppended(NamedTuple):
    """The result of a follower's append."""

    error_code: int
    """0; CORRUPT_MESSAGE, INVALID_RECORD, OFFSET_OUT_OF_RANGE: nothing was appended; KAFKA_STORAGE_ERROR: the
    batches before `end_offset` were.
    """
    error_message: str | None
    end_offset: int
    """The log end offset now: where the next fetch begins."""
    size_bytes: int
    """How many bytes of the answer were appended, and are written; 0: the log is as it was."""
    leader_epoch: int
    """That of the last batch appended, or -1."""


class FollowerAppend:
    """Appends a leader's batches to one log."""

    __slots__ = ("_writer",)

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def append(self, batches: memoryview, leader_epoch: int, now_ms: int) -> FollowerAppended:
        """Append whole batches, which readers see at once. `leader_epoch` is the partition's, in which the
        answer was asked for.
        """
        writer = self._writer
        if writer.refuses_all:
            return self._refused(
                BatchError(ErrorCode.KAFKA_STORAGE_ERROR, "the log's directory is not writable")
            )
        checked = self._check(batches, leader_epoch)
        if isinstance(checked, BatchError):
            return self._refused(checked)
        end_before = writer.log_end_offset
        begins_below = bool(checked) and checked[0].base_offset < end_before
        try:
            # What is staged was appended as leader.
            writer.write_staged()
            if begins_below:
                writer.begin_below(checked[0].base_offset, now_ms)
            size_bytes = self._write(batches, checked, now_ms)
        except OSError as error:
            if begins_below and writer.log_end_offset < end_before:
                writer.stay_empty(end_before)
            message = f"the batches could not be written: {error.strerror or error}"
            refusal = BatchError(ErrorCode.KAFKA_STORAGE_ERROR, message)
            written = [view for view in checked if end_before < view.next_offset <= writer.log_end_offset]
            return self._result(refusal, written)
        last_epoch = checked[-1].leader_epoch if checked else -1
        return FollowerAppended(0, None, writer.log_end_offset, size_bytes, last_epoch)

    def _check(self, batches: memoryview, leader_epoch: int) -> list[BatchView] | BatchError:
        """The whole batches that may be appended, or why none may."""
        next_offset, latest_epoch = self._writer.log_end_offset, self._writer.leader_epoch
        views: list[BatchView] = []
        try:
            for view in iter_batches(batches, allow_partial_tail=True):
                if view.leader_epoch > leader_epoch or len(views) == BATCHES_MAX:
                    break
                if not view.crc_is_valid():
                    return BatchError(ErrorCode.CORRUPT_MESSAGE, f"the crc of {view} is wrong")
                if view.last_offset_delta < 0:
                    return BatchError(ErrorCode.CORRUPT_MESSAGE, f"{view} ends before it begins")
                if view.base_offset < next_offset and (
                    views or view.next_offset <= next_offset or not self._writer.is_empty
                ):
                    code = ErrorCode.CORRUPT_MESSAGE if views else ErrorCode.OFFSET_OUT_OF_RANGE
                    return BatchError(code, f"{view} does not follow on the end offset {next_offset}")
                if view.leader_epoch < latest_epoch:
                    message = f"{view} follows on leader epoch {latest_epoch}"
                    return BatchError(ErrorCode.CORRUPT_MESSAGE, message)
                if view.is_control:
                    if view.size_bytes > CONTROL_BYTES_MAX:
                        raise CorruptBatch(f"{view} is too large for a batch of markers")
                    for record in view.records(CONTROL_BYTES_MAX):
                        parse_end_transaction_marker(record)
                next_offset, latest_epoch = view.next_offset, view.leader_epoch
                views.append(view)
        except CorruptBatch as error:
            return BatchError(ErrorCode.CORRUPT_MESSAGE, str(error))
        except ValueError as error:
            return BatchError(ErrorCode.INVALID_RECORD, str(error))
        if next_offset > OFFSET_MAX:
            return BatchError(ErrorCode.CORRUPT_MESSAGE, f"{views[-1]} ends behind the last offset there is")
        return views

    def _write(self, batches: memoryview, views: list[BatchView], now_ms: int) -> int:
        """Write the batches, those of a segment together: their bytes. OSError, and then all before the end
        offset are written.
        """
        writer = self._writer
        start = position = 0
        for view in views:
            if writer.is_full_for(view.size_bytes, view.last_offset, view.max_timestamp_ms, now_ms):
                if start < position:
                    writer.write([batches[start:position]])
                    start = position
                writer.roll(now_ms)
            if view.last_offset - writer.active.base_offset > RELATIVE_OFFSET_MAX:
                # A gap that no segment can hold. The active one is empty: a full one has made room above.
                writer.begin_at(view.base_offset, now_ms)
            writer.note(view, view.base_offset, view.leader_epoch, now_ms)
            position += view.size_bytes
        if start < position:
            writer.write([batches[start:position]])
        return position

    def _refused(self, refusal: BatchError) -> FollowerAppended:
        return self._result(refusal, [])

    def _result(self, refusal: BatchError, written: list[BatchView]) -> FollowerAppended:
        return FollowerAppended(
            int(refusal.error_code),
            refusal.message,
            self._writer.log_end_offset,
            sum(view.size_bytes for view in written),
            written[-1].leader_epoch if written else -1,
        )
