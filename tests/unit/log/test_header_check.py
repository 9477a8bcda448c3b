"""What is read from a file whose headers a disk has changed, before what the crc covers."""

import errno
import logging

import pytest

from moldau.broker.log.log import CorruptSegment, Log
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.state.epochs import CHECKPOINT_NAME
from moldau.broker.replication.reading import read_batches
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

NOW_MS = 1_700_000_000_000
RECORDS, BATCHES, PER_EPOCH = 2, 30, 10
END = RECORDS * BATCHES
BATCH = build_simple_batch([(b"key", b"value" * 40)] * RECORDS, NOW_MS)
PATH = "/t-0/00000000000000000000.log"


def written(files: SimulatedFiles, **settings: object) -> Log:
    """Thirty batches of three leader epochs, with an index entry for every third."""
    log = open_log(files, "/t-0", "t", 0, TopicSettings(index_interval_bytes=600, **settings)).log
    for number in range(BATCHES):
        log.leader.append(memoryview(bytearray(BATCH)), 1 + 2 * (number // PER_EPOCH), NOW_MS)
        log.writer.flush_staged()
    return log


def offsets_read(log: Log, start: int, max_bytes: int) -> tuple[list[int], bool]:
    """Base offsets that a reader gets who begins at `start`, each with its own records; whether it got to the
    end.
    """
    found: list[int] = []
    while start < END:
        try:
            data = log.reader.read(start, max_bytes, end_offset=END)
        except CorruptSegment:
            return found, False
        assert data
        for view in iter_batches(data):
            assert view.next_offset > start, "a reader would go back"
            assert view.crc_is_valid()
            found.append(view.base_offset)
            start = view.next_offset
    return found, True


@pytest.mark.parametrize("max_bytes", [100, len(BATCH) + 30, 2000, 1 << 20])
@pytest.mark.parametrize("byte", [0, 3, 6, 7, 12, 15, 16])
@pytest.mark.parametrize("batch", [0, 1, 9, 10, 14, 29])
def test_no_reader_gets_a_batch_with_a_wrong_offset_or_epoch(batch: int, byte: int, max_bytes: int) -> None:
    for bit in range(8):
        files = SimulatedFiles()
        log = written(files)
        files.flip_bit(PATH, 8 * (batch * len(BATCH) + byte) + bit)
        log.reader.forget()  # what was just written is in memory
        damaged = RECORDS * batch
        sound = list(range(0, damaged, RECORDS))
        # The first batch of an epoch could be the one that is damaged.
        unsure = damaged - RECORDS if batch % PER_EPOCH == 1 and batch > PER_EPOCH else damaged
        found, complete = offsets_read(log, 0, max_bytes)
        assert not complete
        assert found in (sound, sound[: unsure // RECORDS]), (byte, bit)
        for start in (damaged, damaged + 1):
            found, complete = offsets_read(log, start, max_bytes)
            assert found == [], (byte, bit, start)
        if batch + 3 < BATCHES:
            assert offsets_read(log, END - RECORDS, max_bytes) == ([END - RECORDS], True)


def test_a_wrong_length_gives_no_other_records_than_those_whose_crc_is_wrong() -> None:
    for byte in (8, 9, 10, 11):
        for bit in range(8):
            files = SimulatedFiles()
            log = written(files)
            files.flip_bit(PATH, 8 * (5 * len(BATCH) + byte) + bit)
            log.reader.forget()
            data = log.reader.read(0, 1 << 20, end_offset=END)
            whole = [view.base_offset for view in iter_batches(data) if view.crc_is_valid()]
            assert whole == [0, 2, 4, 6, 8]
            try:
                views = list(iter_batches(log.reader.read(10, 1 << 20, end_offset=END)))
            except CorruptSegment:
                continue
            assert not any(view.crc_is_valid() for view in views)


def test_a_wrong_list_of_leader_epochs_makes_no_log_unreadable() -> None:
    log = written(SimulatedFiles())
    log.reader.forget()
    for entries in ([(7, 0)], [(1, 0), (2, 20)], [(0, 30)], [(1, 10), (9, 20), (11, 30)], []):
        log.epochs.replace(entries)
        for max_bytes in (2000, 1 << 20):
            assert offsets_read(log, 0, max_bytes) == (list(range(0, END, RECORDS)), True), entries


@pytest.mark.parametrize("start", [1, 2, 19, 20, 21, 39, 40, 41, 59])
def test_the_list_of_leader_epochs_begins_where_records_were_deleted(start: int) -> None:
    """Also in the middle of a batch."""
    log = written(SimulatedFiles())
    log.reader.forget()
    log.increment_log_start_offset(start)
    for max_bytes in (100, 2000, 1 << 20):
        expected = list(range(start // RECORDS * RECORDS, END, RECORDS))
        assert offsets_read(log, start, max_bytes) == (expected, True)


def test_gaps_of_compaction_are_no_damage() -> None:
    files = SimulatedFiles()
    log = written(files)
    size = len(BATCH)
    kept = [number for number in range(BATCHES) if number % 4]
    segment = log.segments[0]
    content = b"".join(segment.read(size * number, size) for number in kept)
    segment.write([content], len(content), 0)
    segment.size_bytes = len(content)
    log.segments[0].offset_index.keep(0)
    log.reader.forget()
    for max_bytes in (size + 30, 2000, 1 << 20):
        assert offsets_read(log, 0, max_bytes) == ([RECORDS * number for number in kept], True)
    assert offsets_read(log, 17, 1 << 20)[0][0] == 18


def test_readers_are_told_and_the_log_says_it_once(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    log = written(files)
    files.flip_bit(PATH, 8 * (5 * len(BATCH) + 7) + 1)
    log.reader.forget()

    def ask(offset: int) -> int:
        row = read_batches(log, offset, 1 << 20, END, END, END, False, True, lambda error: None)
        return row.error_code

    with caplog.at_level(logging.ERROR):
        assert [ask(10), ask(10), ask(11), ask(40)] == [*[ErrorCode.CORRUPT_MESSAGE] * 3, 0]
        assert len(caplog.messages) == 1
        files.flip_bit(PATH, 8 * (20 * len(BATCH) + 7) + 1)
        log.reader.forget()
        assert [ask(40), ask(10), ask(40), ask(10)] == [ErrorCode.CORRUPT_MESSAGE] * 4
    assert len(caplog.messages) == 2, "readers of two damaged places take turns"
    ask(10)
    assert "t-0 cannot be read at offset 10" in caplog.messages[0]
    assert log.damage is not None
    assert "position" in log.damage[1]
    log.increment_log_start_offset(30)
    assert log.damage is None, "what was damaged is gone"


@pytest.mark.parametrize("start", [1, 19, 21])
def test_a_log_start_inside_a_batch_is_no_damage(start: int) -> None:
    """The list of leader epochs begins there; the batch around it does earlier (simulated clusters, 502)."""
    log = written(SimulatedFiles())
    log.increment_log_start_offset(start)
    log.reader.forget()
    assert offsets_read(log, start, 1 << 20) == (list(range(start - 1, END, RECORDS)), True)


@pytest.mark.parametrize("max_bytes", [0, -1, -60, -61, -62, -100_000, -(1 << 31)])
def test_who_asks_for_less_than_nothing_gets_the_first_batch_or_nothing(max_bytes: int) -> None:
    """A client may say so; for the disk, a read of negative length is an error, and the log went offline."""
    log = written(SimulatedFiles())
    log.reader.forget()
    assert len(log.reader.read(4, max_bytes, end_offset=END)) == len(BATCH)
    assert log.reader.read(6, max_bytes, end_offset=END, min_one_batch=False) == b""
    # The high watermark of a follower may lie inside a batch.
    assert log.reader.read(8, max_bytes, end_offset=9) == b""


def test_a_part_of_a_batch_at_the_end_of_the_file_is_damage() -> None:
    log = written(SimulatedFiles())
    segment = log.segments[0]
    assert log.reader.read(0, 1 << 20, end_offset=END)
    segment.write([b"x" * 20], 20, segment.size_bytes)
    segment.size_bytes += 20
    log.reader.end_offset = END + 1
    with pytest.raises(CorruptSegment):
        log.reader.read(END, 10, end_offset=END + 1)


def test_leader_epochs_that_a_full_disk_did_not_take_are_found_again_after_a_crash() -> None:
    """Else the list would lack a leader for ever, and its batches would look damaged."""
    files = SimulatedFiles()
    log = open_log(files, "/t-0", "t", 0, TopicSettings()).log

    def append(epoch: int) -> None:
        log.leader.append(memoryview(bytearray(BATCH)), epoch, NOW_MS)
        log.writer.flush_staged()

    def sync() -> None:
        job = log.flusher.job()
        if job is not None:
            job.run()
            log.flusher.job_done(job)

    def full(operation: str, path: str) -> None:
        if CHECKPOINT_NAME in path and operation != "sync":
            raise OSError(errno.ENOSPC, "no space left", path)

    append(1)
    sync()
    assert log.flusher.recovery_point == 2
    files.fault = full
    append(3)
    append(5)
    sync()
    assert log.flusher.recovery_point == 2, "recovery would not see the batches of epoch 3"
    files.process_kill()
    files.fault = lambda operation, path: None
    again = open_log(files, "/t-0", "t", 0, TopicSettings(), recovery_point=log.flusher.recovery_point).log
    assert again.epochs.entries() == [(1, 0), (3, 2), (5, 4)]
    # Where it goes on without a crash, the next sync brings the list to the disk.
    log = again
    files.fault = full
    append(7)
    files.fault = lambda operation, path: None
    append(7)
    sync()
    assert log.flusher.recovery_point == 10
    files.power_cut()
    again = open_log(files, "/t-0", "t", 0, TopicSettings(), recovery_point=log.flusher.recovery_point).log
    assert again.epochs.entries() == [(1, 0), (3, 2), (5, 4), (7, 6)]


@pytest.mark.parametrize("max_bytes", [0, 100, 1 << 20])
def test_a_high_watermark_inside_a_batch_leaves_no_wrong_place_behind(max_bytes: int) -> None:
    """So it may be where records were deleted up to there; nothing is given, and later all is."""
    log = written(SimulatedFiles())
    log.reader.forget()
    assert log.reader.read(40, max_bytes, end_offset=41) == b""
    assert len(log.reader.read(38, max_bytes, end_offset=43)) == len(BATCH) * (2 if max_bytes > 1000 else 1)
    assert offsets_read(log, 43, 1 << 20) == (list(range(42, END, RECORDS)), True)
    assert offsets_read(log, 41, 1 << 20) == (list(range(40, END, RECORDS)), True)
