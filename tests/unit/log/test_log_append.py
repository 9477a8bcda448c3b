"""What a log answers to an append: acceptance, and every refusal with its code."""

import errno
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.log.files.segment import Segment
from moldau.broker.log.log import CorruptSegment, Log, Origin
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.core.files import OsFiles
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import BatchView, TimestampType, iter_batches, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
MakeLog = Callable[..., Log]


@pytest.fixture
def make_log(tmp_path: Path) -> Iterator[MakeLog]:
    opened: list[Log] = []

    def make(**settings: object) -> Log:
        directory = str(tmp_path / f"topic-{len(opened)}")
        log = open_log(OsFiles(), directory, "topic", len(opened), TopicSettings(**settings)).log
        opened.append(log)
        return log

    yield make
    for log in opened:
        log.close()


def batch(
    *values: bytes, key: bytes | None = b"key", timestamp_ms: int = NOW_MS, **more: object
) -> bytearray:
    records = [Record(index, timestamp_ms, key, value) for index, value in enumerate(values)]
    return bytearray(build_batch(records, **more))  # type: ignore[arg-type]


def append(log: Log, data: bytes | bytearray, now_ms: int = NOW_MS, origin: Origin = Origin.CLIENT) -> object:
    return log.leader.append(memoryview(data), leader_epoch=3, now_ms=now_ms, origin=origin)


def error_of(log: Log, data: bytes | bytearray, now_ms: int = NOW_MS) -> ErrorCode:
    before = log.log_end_offset
    result = log.leader.append(memoryview(data), leader_epoch=3, now_ms=now_ms)
    if result.error_code:
        assert log.log_end_offset == before
        assert result.error_message
    else:
        log.writer.flush_staged()
    return {int(code): code for code in ErrorCode}[result.error_code]


def stored(log: Log) -> list[BatchView]:
    log.writer.flush_staged()
    data = log.reader.read(0, 1 << 20, end_offset=log.written_end_offset)
    return list(iter_batches(data))


def test_a_batch_gets_its_offsets_and_epoch_and_keeps_its_bytes(make_log: MakeLog) -> None:
    log = make_log()
    for _ in range(2):
        result = log.leader.append(memoryview(batch(b"a", b"b")), leader_epoch=3, now_ms=NOW_MS)
    assert (result.base_offset, result.last_offset, result.error_code, result.duplicate) == (2, 3, 0, False)
    assert result.log_append_time_ms == -1
    views = stored(log)
    assert [(view.base_offset, view.leader_epoch) for view in views] == [(0, 3), (2, 3)]
    assert all(view.crc_is_valid() for view in views)
    assert bytes(views[1].data)[16:] == bytes(batch(b"a", b"b"))[16:]


def test_staged_batches_count_but_cannot_be_read(make_log: MakeLog) -> None:
    log = make_log()
    append(log, batch(b"a"))
    append(log, batch(b"a"))
    assert (log.log_end_offset, log.written_end_offset) == (2, 1) or log.written_end_offset == 0
    log.writer.flush_staged()
    assert log.written_end_offset == 2


def test_a_large_batch_is_written_at_once_after_what_is_staged(make_log: MakeLog) -> None:
    log = make_log()
    append(log, batch(b"small"))
    append(log, batch(b"x" * 100_000))
    assert log.written_end_offset == 2
    assert [view.size_bytes > 64_000 for view in stored(log)] == [False, True]


def test_nothing_is_appended_while_anyone_holds_the_log_and_never_again_once_offline(
    make_log: MakeLog,
) -> None:
    log = make_log()
    assert error_of(log, batch(b"the segment's first")) == error_of(log, batch(b"usual")) == ErrorCode.NONE
    log.writer.hold()
    log.writer.hold()
    log.writer.release()
    assert error_of(log, batch(b"usual")) == ErrorCode.KAFKA_STORAGE_ERROR
    log.reconfigure(log.settings)
    assert error_of(log, batch(b"usual")) == ErrorCode.KAFKA_STORAGE_ERROR, "new settings release nothing"
    log.writer.release()
    assert error_of(log, batch(b"usual")) == ErrorCode.NONE
    log.writer.hold()
    log.writer.go_offline()
    log.writer.release()
    assert error_of(log, batch(b"usual")) == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_passes_untouched(make_log: MakeLog, compression: str) -> None:
    log = make_log()
    data = batch(*[b"value" * 20] * 30, compression=compression)
    assert error_of(log, data) == ErrorCode.NONE
    (view,) = stored(log)
    assert bytes(view.data)[16:] == bytes(data)[16:]
    assert [record.value for record in view.records()] == [b"value" * 20] * 30


# -- refusals --------------------------------------------------------------------------------------


def changed(data: bytearray, layout: str, offset: int, value: int, *, reseal: bool = True) -> bytearray:
    struct.pack_into(layout, data, offset, value)
    if reseal:
        seal(data)
    return data


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda data: data[:40], ErrorCode.INVALID_RECORD),
        (lambda data: b"", ErrorCode.INVALID_RECORD),
        (lambda data: data[:-1], ErrorCode.INVALID_RECORD),
        (lambda data: data + b"x", ErrorCode.INVALID_RECORD),
        (lambda data: data + data, ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">i", 8, 48), ErrorCode.CORRUPT_MESSAGE),
        (lambda data: changed(data, ">i", 8, -1), ErrorCode.CORRUPT_MESSAGE),
        (lambda data: changed(data, ">i", 8, 0x7FFFFFFF), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">b", 16, 1), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">b", 16, 3), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">I", 17, 1, reseal=False), ErrorCode.CORRUPT_MESSAGE),
        (lambda data: changed(data, ">b", 70, 55, reseal=False), ErrorCode.CORRUPT_MESSAGE),
        (lambda data: changed(data, ">q", 0, 5), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">h", 21, 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (lambda data: changed(data, ">h", 21, 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (lambda data: changed(data, ">h", 21, 0x20), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">h", 21, 0x08), ErrorCode.INVALID_TIMESTAMP),
        (lambda data: changed(data, ">i", 23, 5), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">i", 23, -1), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">i", 57, 0), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">i", 57, -1), ErrorCode.INVALID_RECORD),
        (lambda data: changed(changed(data, ">i", 57, 4), ">i", 23, 3), ErrorCode.INVALID_RECORD),
        (lambda data: changed(changed(data, ">i", 57, 1), ">i", 23, 0), ErrorCode.INVALID_RECORD),
        (lambda data: changed(changed(data, ">i", 57, 100), ">i", 23, 99), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">q", 43, 5), ErrorCode.INVALID_RECORD),
        (lambda data: changed(data, ">q", 35, NOW_MS + 2 * HOUR_MS), ErrorCode.NONE),
    ],
)
def test_a_spoilt_batch_is_refused(
    make_log: MakeLog, spoil: Callable[[bytearray], bytes], code: ErrorCode
) -> None:
    log = make_log()
    assert error_of(log, spoil(batch(b"one", b"two"))) == code
    assert error_of(log, batch(b"fine")) == ErrorCode.NONE


def test_a_lying_maximum_timestamp_is_corrected(make_log: MakeLog) -> None:
    log = make_log()
    data = changed(batch(b"one", timestamp_ms=NOW_MS), ">q", 35, NOW_MS - 5)
    assert error_of(log, data) == ErrorCode.NONE
    (view,) = stored(log)
    assert view.max_timestamp_ms == NOW_MS
    assert view.crc_is_valid()


def test_one_single_record_of_any_size_fills_its_batch_or_is_refused(make_log: MakeLog) -> None:
    log = make_log()
    for size in [0, 1, 50, 53, 54, 55, 56, 57, 58, 100, 8000, 8180, 8190, 9000]:
        data = batch(b"x" * size)
        assert error_of(log, data) == ErrorCode.NONE, size
        longer = bytearray(data + b"\0")
        struct.pack_into(">i", longer, 8, len(longer) - 12)
        seal(longer)
        assert error_of(log, longer) == ErrorCode.INVALID_RECORD, size


def test_size_limit(make_log: MakeLog) -> None:
    data = batch(b"x" * 1000)
    assert error_of(make_log(max_message_bytes=len(data)), data) == ErrorCode.NONE
    assert error_of(make_log(max_message_bytes=len(data) - 1), data) == ErrorCode.MESSAGE_TOO_LARGE


def test_time_limits_name_the_records(make_log: MakeLog) -> None:
    log = make_log(message_timestamp_before_max_ms=HOUR_MS, message_timestamp_after_max_ms=HOUR_MS)
    assert error_of(log, batch(b"a", timestamp_ms=NOW_MS - HOUR_MS)) == ErrorCode.NONE
    assert error_of(log, batch(b"a", timestamp_ms=NOW_MS + HOUR_MS)) == ErrorCode.NONE
    times = [NOW_MS, NOW_MS - HOUR_MS - 1, NOW_MS, NOW_MS + HOUR_MS + 1]
    data = build_batch([Record(index, time_ms, b"k", b"v") for index, time_ms in enumerate(times)])
    result = log.leader.append(memoryview(data), leader_epoch=3, now_ms=NOW_MS)
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in result.record_errors] == [1, 3]
    assert error_of(log, batch(b"a", timestamp_ms=-1)) == ErrorCode.NONE


def test_a_future_timestamp_is_refused_by_default_settings(make_log: MakeLog) -> None:
    log = make_log()
    assert error_of(log, batch(b"a", timestamp_ms=NOW_MS + HOUR_MS + 1)) == ErrorCode.INVALID_TIMESTAMP
    assert error_of(log, batch(b"a", timestamp_ms=1)) == ErrorCode.NONE


def test_a_compacted_topic_wants_keys(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy=("compact",))
    assert error_of(log, batch(b"a", key=None)) == ErrorCode.INVALID_RECORD
    assert error_of(log, batch(b"a", compression="zstd")) == ErrorCode.NONE


def test_append_time_is_stamped_and_answered(make_log: MakeLog) -> None:
    log = make_log(message_timestamp_type="LogAppendTime")
    data = batch(b"a", b"b", timestamp_ms=5, compression="lz4")
    result = log.leader.append(memoryview(data), leader_epoch=3, now_ms=NOW_MS)
    assert result.log_append_time_ms == NOW_MS
    (view,) = stored(log)
    assert view.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert view.crc_is_valid()
    assert [record.timestamp_ms for record in view.records()] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("given", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_topic_may_ask_for_a_codec(make_log: MakeLog, given: str, target: str) -> None:
    log = make_log(compression_type=target)
    assert error_of(log, batch(b"a" * 100, b"b" * 100, compression=given)) == ErrorCode.NONE
    (view,) = stored(log)
    assert view.codec == ["uncompressed", "gzip", "snappy", "lz4", "zstd"].index(target)
    assert view.crc_is_valid()
    assert [(r.offset, r.key, r.value) for r in view.records()] == [
        (0, b"key", b"a" * 100),
        (1, b"key", b"b" * 100),
    ]


def test_damaged_compressed_records_are_found_where_the_records_are_needed(make_log: MakeLog) -> None:
    data = batch(b"a" * 500, compression="zstd")
    data[70] ^= 0xFF
    seal(data)
    assert error_of(make_log(compression_type="lz4"), data) == ErrorCode.INVALID_RECORD


def test_settings_change_at_run_time(make_log: MakeLog) -> None:
    log = make_log()
    assert error_of(log, batch(b"a")) == ErrorCode.NONE
    log.reconfigure(TopicSettings(max_message_bytes=10))
    assert error_of(log, batch(b"a")) == ErrorCode.MESSAGE_TOO_LARGE
    log.reconfigure(TopicSettings())
    assert error_of(log, batch(b"a")) == ErrorCode.NONE


# -- producers -------------------------------------------------------------------------------------


def sequenced(sequence: int, count: int = 1, producer_epoch: int = 0, producer_id: int = 9) -> bytearray:
    return batch(
        *[b"v"] * count, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence
    )


def test_a_repeated_batch_is_answered_with_its_first_offset(make_log: MakeLog) -> None:
    log = make_log()
    for sequence in range(0, 14, 2):
        assert error_of(log, sequenced(sequence, 2)) == ErrorCode.NONE
    for sequence in range(4, 14, 2):  # the last five
        result = log.leader.append(memoryview(sequenced(sequence, 2)), leader_epoch=3, now_ms=NOW_MS)
        assert (result.error_code, result.duplicate) == (0, True)
        assert (result.base_offset, result.last_offset) == (sequence, sequence + 1)
    assert log.log_end_offset == 14
    assert error_of(log, sequenced(2, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(log, sequenced(12, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(log, sequenced(15)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(log, sequenced(14)) == ErrorCode.NONE


def test_a_repetition_within_one_turn_is_recognized(make_log: MakeLog) -> None:
    log = make_log()
    append(log, sequenced(0))
    append(log, sequenced(1))
    result = log.leader.append(memoryview(sequenced(1)), leader_epoch=3, now_ms=NOW_MS)
    assert (result.duplicate, result.base_offset) == (True, 1)


def test_an_unknown_producer_may_begin_anywhere(make_log: MakeLog) -> None:
    log = make_log()
    assert error_of(log, sequenced(77)) == ErrorCode.NONE
    assert error_of(log, sequenced(78)) == ErrorCode.NONE


def test_epochs_of_producers(make_log: MakeLog) -> None:
    log = make_log()
    assert error_of(log, sequenced(0, producer_epoch=1)) == ErrorCode.NONE
    assert error_of(log, sequenced(1, producer_epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(log, sequenced(1, producer_epoch=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(log, sequenced(0, producer_epoch=2)) == ErrorCode.NONE
    assert error_of(log, sequenced(1, producer_epoch=2)) == ErrorCode.NONE


def test_sequences_begin_again_at_zero(make_log: MakeLog) -> None:
    log = make_log()
    assert error_of(log, sequenced(0x7FFFFFFE, 1)) == ErrorCode.NONE
    assert error_of(log, sequenced(0x7FFFFFFF, 3)) == ErrorCode.NONE
    assert log.producers.states[9].last_sequence == 1
    result = log.leader.append(memoryview(sequenced(0x7FFFFFFF, 3)), leader_epoch=3, now_ms=NOW_MS)
    assert (result.duplicate, result.base_offset) == (True, 1)
    assert error_of(log, sequenced(2)) == ErrorCode.NONE


def test_negative_sequences_are_refused(make_log: MakeLog) -> None:
    assert error_of(make_log(), sequenced(-1)) == ErrorCode.INVALID_RECORD


def test_producers_expire(make_log: MakeLog) -> None:
    log = make_log()
    error_of(log, sequenced(0))
    log.expire_producers(NOW_MS + 99, 100)
    assert 9 in log.producers.states
    log.expire_producers(NOW_MS + 100, 100)
    assert not log.producers.states
    assert error_of(log, sequenced(5)) == ErrorCode.NONE


# -- transactions, as far as the log knows them ----------------------------------------------------


def test_an_open_transaction_holds_the_last_stable_offset(make_log: MakeLog) -> None:
    log = make_log()
    error_of(log, batch(b"plain"))
    first = batch(b"t", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    assert error_of(log, first) == ErrorCode.INVALID_TXN_STATE
    assert not log.leader.append_verified(
        memoryview(first), 0, NOW_MS, log.transactions.begin_verification(9, 0)
    ).error_code
    assert error_of(log, sequenced(1)) == ErrorCode.INVALID_TXN_STATE
    log.writer.flush_staged()
    assert log.transactions.last_stable_offset(2) == 1
    marker = build_end_transaction_marker(
        EndTransactionMarker(ControlType.COMMIT, 0), producer_id=9, producer_epoch=0, timestamp_ms=NOW_MS
    )
    assert error_of(log, marker) == ErrorCode.INVALID_RECORD
    append(log, marker, origin=Origin.COORDINATOR)
    log.writer.flush_staged()
    assert log.transactions.last_stable_offset(2) == 1
    assert log.transactions.last_stable_offset(3) == 3
    assert error_of(log, sequenced(1)) == ErrorCode.NONE


# -- reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_bytes", [1, 70, 250, 100_000])
def test_a_file_that_somebody_has_cut_is_called_corrupt(make_log: MakeLog, max_bytes: int) -> None:
    log = make_log()
    for _ in range(3):
        append(log, batch(b"x" * 100))
        log.writer.flush_staged()
    log.reader.forget()
    segment = log.segments[0]
    os.truncate(segment.path(".log"), 30)
    with pytest.raises(CorruptSegment):
        log.reader.read(0, max_bytes, end_offset=3)


def test_behind_a_write_that_failed_nothing_of_the_turn_is_written(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    append(log, batch(b"0"))
    log.writer.flush_staged()
    write, failures = Segment.write, [OSError(errno.ENOSPC, "no space left")]

    def sometimes(segment: Segment, *args: Any) -> None:
        if failures:
            raise failures.pop()
        write(segment, *args)

    monkeypatch.setattr(Segment, "write", sometimes)
    append(log, batch(b"lost"))
    with pytest.raises(OSError, match="no space left"):
        log.writer.roll(NOW_MS)
    append(log, batch(b"lost as well"))  # at the offset of the one before
    with pytest.raises(OSError, match="no space left"):
        log.writer.roll(NOW_MS)  # by retention, or compaction; the disk has room again
    with pytest.raises(OSError, match="no space left"):
        log.writer.flush_staged()
    assert log.written_end_offset == log.log_end_offset == 1
    append(log, batch(b"1"))
    assert [view.base_offset for view in stored(log)] == [0, 1]
