"""Judging a client's batch with all its cases, and rewriting it where the topic's settings ask for that.

log.py lets the usual batch through by its header alone and calls this for every other. The order of the
checks and the codes are Kafka's (LogValidator, UnifiedLog): form, size, crc, count, control bit, codec, then
the records where a setting demands to look inside:

    compaction           every record needs a key timestamp limits     a record too old or too new is refused,
    and named by its place in the batch compression.type     another codec than the batch's: the payload is
    unpacked and packed again LogAppendTime        no look inside: a bit and the maximum timestamp in the
    header, and the crc over the whole

A maximum timestamp in the header that is below the base timestamp is a lie; then the records are asked, and
it is corrected.

A wrong count is found by the last offset delta, by a lower bound on a record's size, and, in uncompressed
batches of up to `COUNTED_RECORDS_MAX` records, by walking their lengths. A larger batch that was built to lie
consistently is not found unless the records are looked at for another reason; its readers will refuse it.
"""

from typing import NamedTuple

from moldau.core.settings.rows import MAX_LONG
from moldau.core.settings.topic import TopicSettings
from moldau.log.outcome import Outcome, RecordError
from moldau.protocol.errors import ErrorCode
from moldau.records import compression
from moldau.records.batch import (
    ATTRIBUTES,
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_OFFSET,
    NO_TIMESTAMP,
    POSITION,
    RECORD_BYTES_MIN,
    TRANSACTIONAL,
    BatchView,
    CorruptBatch,
    Readable,
    place,
    seal,
    set_max_timestamp,
    stamp_append_time,
)
from moldau.records.record import records_fill_payload

COUNTED_RECORDS_MAX = 8
_ERRORS_SHOWN_MAX = 3
_LZ4_DEFAULT_LEVEL = 9
_CODECS = frozenset(range(len(compression.CODEC_NAMES)))


class Rules:
    """A topic's settings as the append needs them."""

    __slots__ = (
        "after_max_ms",
        "append_time",
        "before_max_ms",
        "codec",
        "compacts",
        "level",
        "plain_attributes",
        "size_bytes_max",
        "timestamps_limited",
    )

    def __init__(self, settings: TopicSettings) -> None:
        self.size_bytes_max = settings.max_message_bytes
        self.append_time = settings.message_timestamp_type == "LogAppendTime"
        self.before_max_ms = settings.message_timestamp_before_max_ms
        self.after_max_ms = settings.message_timestamp_after_max_ms
        self.timestamps_limited = not self.append_time and self.before_max_ms < MAX_LONG
        self.compacts = settings.compacts
        self.codec: int | None = None
        self.level: int | None = None
        if settings.compression_type != "producer":
            self.codec = compression.CODEC_NUMBERS[settings.compression_type]
            self.level = {
                compression.GZIP: settings.compression_gzip_level,
                compression.ZSTD: settings.compression_zstd_level,
                # As in Kafka, the default level of lz4 stands for the fast compressor.
                compression.LZ4: settings.compression_lz4_level
                if settings.compression_lz4_level != _LZ4_DEFAULT_LEVEL
                else None,
            }.get(self.codec)
        # The attributes with which a batch may pass by its header alone: a codec, and perhaps the bit of
        # transactions.
        codecs = _CODECS if self.codec is None else frozenset({self.codec})
        if self.append_time or self.timestamps_limited or self.compacts:
            codecs = frozenset()
        self.plain_attributes = codecs | {codec | TRANSACTIONAL for codec in codecs}


class _Inspection(NamedTuple):
    """What the records say."""

    errors: tuple[RecordError, ...]
    all_are_timestamps: bool
    max_timestamp_ms: int


def prepare(data: Readable, rules: Rules, now_ms: int, *, from_client: bool) -> BatchView | Outcome:
    """The batch as it shall be stored (rewritten, and then in memory of its own, where need be), or the
    refusal.
    """
    view = _parse(data)
    if isinstance(view, Outcome):
        return view
    refusal = _judge_form(view, rules) or (_judge_client(view) if from_client else None)
    if refusal is not None:
        return refusal
    if from_client:
        return _apply_rules(view, rules, now_ms)
    return view


def _parse(data: Readable) -> BatchView | Outcome:
    """The one batch that `data` is."""
    size = len(data)
    if size < HEADER_BYTES:
        return Outcome(ErrorCode.INVALID_RECORD, f"{size} bytes hold no record batch")
    length: int = POSITION.unpack_from(data)[1]
    if length < LENGTH_MIN:
        return Outcome(ErrorCode.CORRUPT_MESSAGE, f"the batch's length field says {length}")
    if data[MAGIC_OFFSET] != MAGIC:
        return Outcome(
            ErrorCode.INVALID_RECORD,
            f"only record batches of magic {MAGIC} are accepted, and this one has {data[MAGIC_OFFSET]}",
        )
    if length + LENGTH_OVERHEAD > size:
        return Outcome(
            ErrorCode.INVALID_RECORD,
            f"the batch should have {length + LENGTH_OVERHEAD} bytes, and {size} were sent",
        )
    if length + LENGTH_OVERHEAD < size:
        return Outcome(ErrorCode.INVALID_RECORD, "more than one record batch was sent for a partition")
    return BatchView(data)


def _judge_form(view: BatchView, rules: Rules) -> Outcome | None:
    if view.size_bytes > rules.size_bytes_max:
        return Outcome(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {view.size_bytes} bytes, and max.message.bytes is {rules.size_bytes_max}",
        )
    if not view.crc_is_valid():
        return Outcome(ErrorCode.CORRUPT_MESSAGE, "the batch's crc does not match its bytes")
    if view.codec not in _CODECS:
        return Outcome(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression codec {view.codec} is unknown")
    return None


def _judge_client(view: BatchView) -> Outcome | None:
    """What only a client can get wrong."""
    reason = ""
    payload_bytes = view.size_bytes - HEADER_BYTES
    if view.base_offset != 0:
        reason = f"the batch's base offset should be 0, and is {view.base_offset}"
    elif view.last_offset_delta < 0:
        reason = f"the batch's last offset delta is {view.last_offset_delta}"
    elif view.count <= 0:
        reason = f"the batch says that it holds {view.count} records"
    elif view.count != view.last_offset_delta + 1:
        reason = f"{view.count} records cannot have offsets up to {view.last_offset_delta}"
    elif view.is_control:
        reason = "clients may not write control records"
    elif view.producer_id >= 0 and (view.base_sequence < 0 or view.producer_epoch < 0):
        reason = (
            f"producer {view.producer_id} sent sequence {view.base_sequence} in epoch {view.producer_epoch}"
        )
    elif view.producer_id < 0 and view.is_transactional:
        reason = "a transactional batch needs a producer id"
    elif not view.codec and (
        view.count * RECORD_BYTES_MIN > payload_bytes
        or (
            view.count <= COUNTED_RECORDS_MAX
            and not records_fill_payload(view.data, HEADER_BYTES, view.count)
        )
    ):
        reason = f"the batch says that it holds {view.count} records, and its {payload_bytes} bytes do not"
    elif view.delete_horizon_ms is not None:
        reason = "clients may not set a delete horizon"
    return Outcome(ErrorCode.INVALID_RECORD, reason) if reason else None


def _apply_rules(view: BatchView, rules: Rules, now_ms: int) -> BatchView | Outcome:
    if view.attributes & LOG_APPEND_TIME and not rules.append_time:
        return Outcome(
            ErrorCode.INVALID_TIMESTAMP, "the batch claims LogAppendTime, which only the broker may set"
        )
    recode = rules.codec is not None and rules.codec != view.codec
    too_new = not rules.append_time and view.max_timestamp_ms > now_ms + rules.after_max_ms
    max_is_a_lie = view.max_timestamp_ms < view.base_timestamp_ms
    max_timestamp_ms = view.max_timestamp_ms
    if rules.compacts or rules.timestamps_limited or recode or too_new or max_is_a_lie:
        try:
            inspection = _inspect(view, rules, now_ms)
        except CorruptBatch as error:
            return Outcome(ErrorCode.INVALID_RECORD, f"the records cannot be read: {error}")
        if inspection.errors:
            return _refuse_records(inspection)
        max_timestamp_ms = inspection.max_timestamp_ms
    if recode and rules.codec is not None:
        view = _recode(view, rules.codec, rules.level)
        if view.size_bytes > rules.size_bytes_max:
            return Outcome(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"recompressed, the batch has {view.size_bytes} bytes, "
                f"and max.message.bytes is {rules.size_bytes_max}",
            )
    if rules.append_time:
        copy = bytearray(view.data)
        stamp_append_time(copy, now_ms)
        return BatchView(copy)
    if max_timestamp_ms != view.max_timestamp_ms:
        copy = bytearray(view.data)
        set_max_timestamp(copy, max_timestamp_ms)
        return BatchView(copy)
    return view


def _inspect(view: BatchView, rules: Rules, now_ms: int) -> _Inspection:
    """Look at every record; CorruptBatch when they cannot be read."""
    errors: list[RecordError] = []
    timestamp_errors = 0
    max_timestamp_ms = NO_TIMESTAMP
    oldest_ms, newest_ms = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    for index, record in enumerate(view.records()):
        if record.offset - view.base_offset != index:
            errors.append(RecordError(index, f"its offset delta is {record.offset - view.base_offset}"))
        if rules.compacts and record.key is None:
            errors.append(RecordError(index, "a compacted topic accepts no record without a key"))
        timestamp_ms = record.timestamp_ms
        max_timestamp_ms = max(max_timestamp_ms, timestamp_ms)
        if (
            not rules.append_time
            and timestamp_ms != NO_TIMESTAMP
            and not oldest_ms <= timestamp_ms <= newest_ms
        ):
            timestamp_errors += 1
            errors.append(
                RecordError(index, f"its timestamp {timestamp_ms} is not between {oldest_ms} and {newest_ms}")
            )
    return _Inspection(tuple(errors), timestamp_errors == len(errors), max_timestamp_ms)


def _refuse_records(inspection: _Inspection) -> Outcome:
    if inspection.all_are_timestamps:
        return Outcome(
            ErrorCode.INVALID_TIMESTAMP,
            "one or more records have a timestamp outside the topic's limits",
            inspection.errors,
        )
    shown = "; ".join(
        f"record {error.batch_index}: {error.message}" for error in inspection.errors[:_ERRORS_SHOWN_MAX]
    )
    return Outcome(
        ErrorCode.INVALID_RECORD, f"{len(inspection.errors)} records are refused ({shown})", inspection.errors
    )


def _recode(view: BatchView, codec: int, level: int | None) -> BatchView:
    """The same records in another codec. The deltas stay, so the payload is packed again as it is."""
    data = bytearray(view.data[:HEADER_BYTES])
    data += compression.compress(codec, view.payload(), level)
    ATTRIBUTES.pack_into(data, CRC_START, (view.attributes & ~CODEC_MASK) | codec)
    place(data, view.base_offset, view.leader_epoch)
    seal(data)
    return BatchView(data)
