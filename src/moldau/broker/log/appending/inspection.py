"""Validates every record of a client's batch, and recompresses the batch in the topic's codec.

A few hundred bytes may hold millions of records, so an inspection is an object that is run where there is
time for it: `run_short` on the event loop, in less than a millisecond; `run_likely` in a worker thread; `run`
in another one, where the batch unpacks to more than nearly all do. It has its bytes for itself (after
`keep`), touches nothing else, and leaves its `result` for the append.

    append ──> Deferred(inspection) ──> keep ──> run_likely or run, elsewhere ──> append_inspected

A compressed batch is unpacked in stages, and each prefix is walked over before more of it is unpacked: what
is no record ends the inspection there, however much would follow.

Records are walked over, not decoded (records/walk.py); only those that are refused become objects, and of
those no more than an answer has room for: after `RECORD_ERRORS_MAX` the batch is refused with what has been
found. (In Kafka the list has no end. To a client a record that is not in it failed because of its
neighbours, and comes again if it sends it again.)

Not here: what needs no look at records (validation.py), the order of appends (produce/produce_later.py).
"""

from contextlib import closing

from moldau.broker.log.appending.batch_error import BatchError, RecordError
from moldau.broker.log.appending.rules import Rules
from moldau.common.core.side_worker import PutOff
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records import compression, walk
from moldau.common.records.batch import (
    ATTRIBUTES,
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    BatchView,
    place,
    seal,
    set_max_timestamp,
)
from moldau.common.records.compression import (
    CompressionFailure,
    PacksToMore,
    UnpacksToMore,
    unpacked_prefixes,
)
from moldau.common.records.headers import Readable
from moldau.common.records.packed_records import SHORT_RECORDS_MAX, loop_limits
from moldau.common.records.record import Record, decode_record, decode_varint
from moldau.common.records.unpack_budget import UnpackBudget, likely_bytes

RECORD_ERRORS_MAX = 100
_ERRORS_SHOWN_MAX = 3
_VARINT_BYTES_MAX = 5
_SHORT_RECODED_BYTES_MAX = 4 * 1024  # the slowest codec at its highest level packs so much in a millisecond


class Inspection:
    """One batch whose records must be validated before it may be appended."""

    __slots__ = ("_newest_ms", "_now_ms", "_oldest_ms", "_recode", "_rules", "_view", "result")

    def __init__(self, view: BatchView, rules: Rules, now_ms: int) -> None:
        """`now_ms` is what the timestamps' limits are counted from: the time at which the batch came."""
        self._view = view
        self._rules = rules
        self._now_ms = now_ms
        self._recode = rules.codec is not None and rules.codec != view.codec
        self._oldest_ms, self._newest_ms = walk.INT64_MIN, walk.INT64_MAX
        if not rules.append_time:
            self._oldest_ms = max(self._oldest_ms, now_ms - rules.before_max_ms)
            self._newest_ms = min(self._newest_ms, now_ms + rules.after_max_ms)
        self.result: BatchView | BatchError | None = None
        """What `run` has found: the batch to be appended, or the refusal."""

    @property
    def size_bytes(self) -> int:
        """The batch's, as it came."""
        return self._view.size_bytes

    @property
    def prepared(self) -> Readable | None:
        """The batch to be appended, once it has been inspected; None if it is refused for good."""
        return self.result.data if isinstance(self.result, BatchView) else None

    @property
    def is_short(self) -> bool:
        """Whether `run_short` may be tried on the event loop. An uncompressed batch is only walked over,
        whatever its size."""
        if self._view.count > SHORT_RECORDS_MAX:
            return False
        if self._recode:
            return self.size_bytes <= _SHORT_RECODED_BYTES_MAX
        return not self._view.codec or self.size_bytes <= loop_limits(self._view.codec)[0]

    def keep(self) -> None:
        """Copy the batch: its receive buffer will be reused."""
        self._view = BatchView(bytes(self._view.data))

    def run_short(self) -> BatchView | BatchError:
        """As `run`, in less than a millisecond; UnpacksToMore when the batch is too large for that."""
        return self._run(_SHORT_RECODED_BYTES_MAX if self._recode else loop_limits(self._view.codec)[1])[0]

    def run_likely(self, budget: UnpackBudget) -> None:
        """As `run`; PutOff, and nothing has happened, when the batch unpacks to far more than was sent: the
        time that is spent on it here follows the bytes that its client has sent.
        """
        limit = likely_bytes(self.size_bytes)
        count = self._view.count
        if not self._view.codec or count > budget.records_left or limit >= budget.batch_bytes_max:
            self.run(budget)
            return
        try:
            self.result, unpacked_bytes = self._run(limit)
        except UnpacksToMore:
            raise PutOff from None
        budget.spend(unpacked_bytes, count)

    def run(self, budget: UnpackBudget) -> None:
        """Validate the records and set `result`; in any thread."""
        count = self._view.count
        limit = budget.batch_bytes_max
        if count > budget.records_left or (self._view.codec and not limit):
            self.result = BatchError(
                ErrorCode.MESSAGE_TOO_LARGE,
                "the request holds more compressed data than the broker unpacks for one request: "
                "send fewer batches at once",
            )
            return
        try:
            self.result, unpacked_bytes = self._run(limit)
        except UnpacksToMore:
            unpacked_bytes = limit
            self.result = BatchError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch unpacks to more than the {limit} bytes that a batch may have here, or that its "
                "request has left: send smaller batches",
            )
        budget.spend(unpacked_bytes, count)

    def _run(self, bytes_max: int) -> tuple[BatchView | BatchError, int]:
        """(what is found, how many bytes were unpacked for it); UnpacksToMore."""
        view = self._view
        body = memoryview(view.data)[HEADER_BYTES:]
        walked = _Walked()
        unpacked_bytes = 0
        try:
            with closing(unpacked_prefixes(view.codec, body, bytes_max)) as prefixes:
                for payload, whole in prefixes:
                    unpacked_bytes = len(payload) if view.codec else 0
                    found = self._judge(payload, walked, whole)
                    del payload  # its memory is about to go
                    if found is not None:
                        return found, unpacked_bytes
        except UnpacksToMore:
            raise
        except CompressionFailure as error:
            reason = f"the records cannot be read: they cannot be decompressed: {error}"
            return BatchError(ErrorCode.INVALID_RECORD, reason), unpacked_bytes
        raise AssertionError("the whole payload was judged")

    def _judge(self, payload: walk.Readable, walked: "_Walked", whole: bool) -> BatchView | BatchError | None:
        """What is found; None: that takes more of the payload."""
        count, size = self._view.count, len(payload)
        if whole and count * RECORD_BYTES_MIN > size:
            return BatchError(
                ErrorCode.INVALID_RECORD,
                f"the batch says that it holds {count} records, and its {size} bytes do not",
            )
        try:
            done = self._walk(payload, walked, whole)
        except ValueError as error:
            return BatchError(ErrorCode.INVALID_RECORD, f"the records cannot be read: {error}")
        if not done:
            return None
        if walked.errors:
            return _refuse(walked.errors)
        view = self._view
        if self._recode:
            recoded = self._packed_anew(payload)
            if isinstance(recoded, BatchError):
                return recoded
            view = recoded
        if not self._rules.append_time and walked.max_timestamp_ms != view.max_timestamp_ms:
            copy = bytearray(view.data)
            set_max_timestamp(copy, walked.max_timestamp_ms)
            return BatchView(copy)
        return view

    def _walk(self, payload: walk.Readable, walked: "_Walked", whole: bool) -> bool:
        """Go on walking; False where this prefix ends. ValueError where the records cannot be read."""
        view, count = self._view, self._view.count
        keys, base_ms = self._rules.compacts, view.base_timestamp_ms
        while walked.index < count:
            stop = min(count, walked.index + walk.STRETCH_RECORDS)
            outcome, walked.position, walked.index, walked.max_timestamp_ms = walk.check(
                payload,
                walked.position,
                walked.index,
                stop,
                base_ms,
                keys,
                self._oldest_ms,
                self._newest_ms,
                walked.max_timestamp_ms,
            )
            if outcome == walk.WALKED:
                if walked.index < count:
                    walk.between_stretches()
                continue
            if not whole and _breaks_off(payload, walked.position):
                return False
            record, walked.position = decode_record(payload, walked.position, 0, base_ms)
            if outcome == walk.MALFORMED:
                raise ValueError(f"the timestamp of record {walked.index} does not fit 64 bits")
            walked.errors.append(self._wrong(walked.index, record))
            if len(walked.errors) == RECORD_ERRORS_MAX:
                return True
            walked.index += 1
        if not whole or walked.position != len(payload):
            rest = f"{len(payload) - walked.position} bytes{'' if whole else ' and more'}"
            raise ValueError(f"{rest} are left after the {count} records that the header counts")
        return True

    def _wrong(self, index: int, record: Record) -> tuple[int, RecordError]:
        """What is wrong with a record at which the walk has stopped."""
        if record.offset != index:
            return ErrorCode.INVALID_RECORD, RecordError(index, f"its offset delta is {record.offset}")
        if self._rules.compacts and record.key is None:
            message = "a compacted topic accepts no record without a key"
            return ErrorCode.INVALID_RECORD, RecordError(index, message)
        offset = self._view.base_offset + index
        message = (  # Kafka's words
            f"Timestamp {record.timestamp_ms} of message with offset {offset} is out of range. "
            f"The timestamp should be within [{self._oldest_ms}, {self._newest_ms}]"
        )
        return ErrorCode.INVALID_TIMESTAMP, RecordError(index, message)

    def _packed_anew(self, payload: walk.Readable) -> BatchView | BatchError:
        """The same records in the topic's codec. The deltas stay, so the payload is packed as it is."""
        view, rules = self._view, self._rules
        assert rules.codec is not None
        size_max = rules.size_bytes_max - HEADER_BYTES
        try:
            if rules.codec == compression.NONE and len(payload) > size_max:
                raise PacksToMore
            # Not packed further than that: a batch of 150 KB could take 250 MB and fifteen seconds.
            packed = compression.compress(rules.codec, payload, rules.level, size_max)
        except PacksToMore:
            return BatchError(
                ErrorCode.MESSAGE_TOO_LARGE,
                "recompressed in the topic's codec, the batch has more bytes than "
                f"max.message.bytes={rules.size_bytes_max} allows",
            )
        data = bytearray(view.data[:HEADER_BYTES])
        data += packed
        ATTRIBUTES.pack_into(data, CRC_START, (view.attributes & ~CODEC_MASK) | rules.codec)
        place(data, view.base_offset, view.leader_epoch)
        seal(data)
        return BatchView(data)


class _Walked:
    """How far the walk over the records has come, and what it has found."""

    __slots__ = ("errors", "index", "max_timestamp_ms", "position")

    def __init__(self) -> None:
        self.position = self.index = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        self.errors: list[tuple[int, RecordError]] = []
        """What is wrong with records, with the error code for each."""


def _breaks_off(prefix: walk.Readable, position: int) -> bool:
    """Whether the record at this position ends behind the prefix of the payload that is there."""
    try:
        length, start = decode_varint(prefix, position, _VARINT_BYTES_MAX)
    except ValueError:
        return len(prefix) - position < _VARINT_BYTES_MAX
    return length > 0 and len(prefix) < start + length


def _refuse(found: list[tuple[int, RecordError]]) -> BatchError:
    """One record with a wrong time decides the code for all, as in Kafka."""
    errors = tuple(error for _, error in found)
    if any(code == ErrorCode.INVALID_TIMESTAMP for code, _ in found):
        return BatchError(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            errors,
        )
    shown = "; ".join(f"record {error.batch_index}: {error.message}" for error in errors[:_ERRORS_SHOWN_MAX])
    count = f"{len(errors)} or more" if len(errors) == RECORD_ERRORS_MAX else f"{len(errors)}"
    return BatchError(ErrorCode.INVALID_RECORD, f"{count} records are refused ({shown})", errors)
