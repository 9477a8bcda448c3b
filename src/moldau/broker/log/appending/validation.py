"""Validates a batch in full, and rewrites it where the topic's settings require that.

leader_append.py lets the usual batch through after a quick look and calls this for every other. The order of
the checks and the codes are Kafka's (LogValidator, UnifiedLog): form, size, crc, count, control bit, codec,
then the records:

    all                  they can be unpacked and read, are as many as the header says, and have its offsets
    compaction           every record needs a key
    timestamp limits     a record too old or too new is refused, and named by its place in the batch
    compression.type     another codec than the batch's: the payload is unpacked and packed again
    LogAppendTime        no look inside: a bit and the maximum timestamp in the header, and the crc over all

A maximum timestamp in the header that is below the base timestamp is wrong; it is corrected from the records.

A few records are validated here; for more, the result is an `Inspection` to be run elsewhere (inspection.py).

With `moldau.records.check=false` compressed batches are not unpacked, unless another setting demands it. A
wrong count is then found by the last offset delta, by a lower bound on a record's size, and, in uncompressed
batches of up to `COUNTED_RECORDS_MAX` records, by walking their lengths.
"""

from moldau.broker.log.appending.batch_error import BatchError
from moldau.broker.log.appending.inspection import Inspection
from moldau.broker.log.appending.rules import CODECS, Rules
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import (
    HEADER_BYTES,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_OFFSET,
    POSITION,
    RECORD_BYTES_MIN,
    BatchView,
    Readable,
    stamp_append_time,
)
from moldau.common.records.compression import UnpacksToMore
from moldau.common.records.record import records_fill_payload

COUNTED_RECORDS_MAX = 8


def prepare(
    data: Readable, rules: Rules, now_ms: int, *, from_client: bool, is_long: bool = False
) -> BatchView | BatchError | Inspection:
    """The batch as it shall be stored (rewritten, and then in memory of its own, where need be), the refusal,
    or the inspection that must be run first; `is_long`: known to take longer than the event loop has.
    """
    view = _parse(data)
    if isinstance(view, BatchError):
        return view
    refusal = _judge_form(view, rules) or (_judge_client(view) if from_client else None)
    if refusal is not None:
        return refusal
    if from_client:
        return _apply_rules(view, rules, now_ms, is_long=is_long)
    return view


def stamp(view: BatchView, rules: Rules, now_ms: int) -> BatchView:
    """The batch with the append time, under LogAppendTime."""
    if not rules.append_time:
        return view
    copy = bytearray(view.data)
    stamp_append_time(copy, now_ms)
    return BatchView(copy)


def _parse(data: Readable) -> BatchView | BatchError:
    """The one batch that `data` is."""
    size = len(data)
    if size < HEADER_BYTES:
        return BatchError(ErrorCode.INVALID_RECORD, f"{size} bytes hold no record batch")
    length: int = POSITION.unpack_from(data)[1]
    if length < LENGTH_MIN:
        return BatchError(ErrorCode.CORRUPT_MESSAGE, f"the batch's length field says {length}")
    if data[MAGIC_OFFSET] != MAGIC:
        return BatchError(
            ErrorCode.INVALID_RECORD,
            f"only record batches of magic {MAGIC} are accepted, and this one has {data[MAGIC_OFFSET]}",
        )
    if length + LENGTH_OVERHEAD > size:
        return BatchError(
            ErrorCode.INVALID_RECORD,
            f"the batch should have {length + LENGTH_OVERHEAD} bytes, and {size} were sent",
        )
    if length + LENGTH_OVERHEAD < size:
        return BatchError(ErrorCode.INVALID_RECORD, "more than one record batch was sent for a partition")
    return BatchView(data)


def _judge_form(view: BatchView, rules: Rules) -> BatchError | None:
    if view.size_bytes > rules.size_bytes_max:
        return BatchError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {view.size_bytes} bytes, and max.message.bytes is {rules.size_bytes_max}",
        )
    if not view.crc_is_valid():
        return BatchError(ErrorCode.CORRUPT_MESSAGE, "the batch's crc does not match its bytes")
    if view.codec not in CODECS:
        return BatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression codec {view.codec} is unknown"
        )
    return None


def _judge_client(view: BatchView) -> BatchError | None:
    """Checks that only apply to clients' batches."""
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
    return BatchError(ErrorCode.INVALID_RECORD, reason) if reason else None


def _apply_rules(
    view: BatchView, rules: Rules, now_ms: int, *, is_long: bool
) -> BatchView | BatchError | Inspection:
    if view.attributes & LOG_APPEND_TIME and not rules.append_time:
        return BatchError(
            ErrorCode.INVALID_TIMESTAMP, "the batch claims LogAppendTime, which only the broker may set"
        )
    recode = rules.codec is not None and rules.codec != view.codec
    too_new = not rules.append_time and view.max_timestamp_ms > now_ms + rules.after_max_ms
    max_is_wrong = view.max_timestamp_ms < view.base_timestamp_ms
    if rules.looks_inside or rules.compacts or rules.timestamps_limited or recode or too_new or max_is_wrong:
        inspection = Inspection(view, rules, now_ms)
        if is_long or not inspection.is_short:
            return inspection
        try:
            looked_at = inspection.run_short()
        except UnpacksToMore:
            return inspection
        if isinstance(looked_at, BatchError):
            return looked_at
        view = looked_at
    return stamp(view, rules, now_ms)
