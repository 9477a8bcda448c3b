"""The rules of cleaning, one by one, on segments written by hand."""

import errno
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from moldau.broker.log.compaction import rewrite
from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.job import (
    NO_DATA_OFFSET,
    Cancelled,
    CleanJob,
    CleanResult,
    LastRecord,
    Progress,
    Source,
    Uncleanable,
)
from moldau.broker.log.files.index import OffsetIndex, TimeIndex
from moldau.broker.log.state.transaction_index import AbortedTransaction, TransactionIndex
from moldau.common.records.batch import BatchView, TimestampType, iter_batches, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from moldau.common.records.record import Record
from moldau.testing.simulated_files import SimulatedFiles

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000

pytestmark = pytest.mark.usefixtures("compaction_kernel")


class Bench:
    """A directory of segments, and a job over them."""

    def __init__(self) -> None:
        self.files = SimulatedFiles(now_ms=lambda: NOW_MS - 5000)
        self.files.make_directory("/d")
        self.sources: list[Source] = []
        self.end = 0

    def segment(self, *batches: bytes, end: int | None = None) -> None:
        base = self.end
        for batch in batches:
            self.end = BatchView(batch).next_offset
        self.end = self.end if end is None else end
        self.write(f"/d/{base:020d}.log", b"".join(batches))
        self.sources.append(Source(base, self.end, sum(map(len, batches))))

    def write(self, path: str, data: bytes) -> None:
        fd = self.files.open(path, create=True, truncate=True)
        self.files.pwrite(fd, data, 0)
        self.files.close(fd)

    def read(self, path: str) -> bytes:
        fd = self.files.open(path)
        data = self.files.pread(fd, self.files.size_bytes(fd), 0)
        self.files.close(fd)
        return data

    def job(self, *, dirty: int = 0, until: int | None = None, **changes: object) -> CleanJob:
        until = self.end + 1000 if until is None else until  # so that no batch is the round's last
        fields = {"now_ms": NOW_MS, "delete_retention_ms": DAY_MS, "segment_bytes": 1 << 20, **changes}
        return CleanJob("/d", "t", 0, tuple(self.sources), dirty, until, **fields)  # type: ignore[arg-type]

    def clean(self, **changes: object) -> CleanResult:
        return clean(self.files, self.job(**changes))  # type: ignore[arg-type]

    def left(self, base: int = 0) -> list[BatchView]:
        return list(iter_batches(self.read(f"/d/{base:020d}.log.cleaned")))

    def again(self, result: CleanResult) -> None:
        """Put the result in the place of the sources."""
        ends = {source.base_offset: source.end_offset for source in self.sources}
        self.sources = []
        for group in result.groups:
            self.files.rename(f"/d/{group.base_offset:020d}.log.cleaned", f"/d/{group.base_offset:020d}.log")
            self.sources.append(Source(group.base_offset, ends[group.sources[-1]], group.size_bytes))

    def cleaned_names(self) -> list[str]:
        return sorted(name for name in self.files.list_directory("/d") if name.endswith(".cleaned"))


def batch(base: int, *pairs: tuple[bytes | None, bytes | None], **fields: object) -> bytes:
    records = [Record(base + i, NOW_MS - 100 + i, key, value) for i, (key, value) in enumerate(pairs)]
    return build_batch(records, base_offset=base, **fields)  # type: ignore[arg-type]


def transactional(base: int, *pairs: tuple[bytes | None, bytes | None], sequence: int = 0) -> bytes:
    return batch(base, *pairs, producer_id=7, producer_epoch=1, base_sequence=sequence, transactional=True)


def marker(offset: int, kind: ControlType = ControlType.COMMIT, epoch: int = 1) -> bytes:
    return build_end_transaction_marker(
        EndTransactionMarker(kind, 3),
        producer_id=7,
        producer_epoch=epoch,
        timestamp_ms=NOW_MS,
        base_offset=offset,
    )


def offsets(batches: Sequence[BatchView]) -> list[int]:
    return [record.offset for each in batches if not each.is_control for record in each.records()]


# -- records ---------------------------------------------------------------------------------------


def test_the_latest_record_of_a_key_stays_with_its_offset() -> None:
    bench = Bench()
    bench.segment(batch(0, (b"a", b"1"), (b"b", b"1")), batch(2, (b"a", b"2"), (b"c", b"1")))
    result = bench.clean()
    assert offsets(bench.left()) == [1, 2, 3]
    assert result.groups[0].sources == (0,)
    assert (result.statistics.records_in, result.statistics.records_out, result.statistics.keys) == (4, 3, 3)


def test_a_clean_part_loses_what_the_dirty_part_replaces_and_nothing_else() -> None:
    bench = Bench()
    bench.segment(batch(0, (b"a", b"1"), (b"b", b"1")))
    bench.segment(batch(2, (b"a", b"2")))
    bench.clean(dirty=2)
    assert offsets(bench.left()) == [1, 2]


def test_records_without_a_key_go_and_are_counted() -> None:
    bench = Bench()
    bench.segment(batch(0, (None, b"1"), (b"a", b"1"), (None, b"2")))
    assert bench.clean().statistics.keyless_records == 2
    assert offsets(bench.left()) == [1]


def test_what_is_not_decided_stays_as_it_is() -> None:
    bench = Bench()
    undecided = [batch(2, (b"a", b"2"), (None, b"x"), (b"a", None)), batch(5, (b"a", b"4"))]
    bench.segment(batch(0, (b"a", b"0"), (b"a", b"1")), *undecided)
    result = bench.clean(until=2)
    assert result.cleaned_until_offset == 2
    assert offsets(bench.left()) == [1, 2, 3, 4, 5]
    assert [bytes(each.data) for each in bench.left()[1:]] == undecided


# -- batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_keeps_everything_is_copied_byte_for_byte(compression: str) -> None:
    bench = Bench()
    data = batch(0, (b"a", b"1"), (b"b", b"1"), compression=compression, leader_epoch=5)
    bench.segment(data)
    bench.clean()
    assert [bytes(each.data) for each in bench.left()] == [data]
    bench.again(bench.clean())
    bench.clean(dirty=2)
    assert [bytes(each.data) for each in bench.left()] == [data]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_loses_records_keeps_all_else(compression: str) -> None:
    bench = Bench()
    pairs = [(b"a", b"1" * 50), (b"b", b"1" * 50), (b"a", b"2" * 50), (b"c", b"3"), (b"b", b"4" * 300)]
    bench.segment(
        batch(
            40, *pairs, (b"a", b"5"), compression=compression, leader_epoch=5, producer_id=9,
            producer_epoch=2, base_sequence=70, last_offset_delta=8,
        )
    )  # fmt: skip
    bench.clean()
    [left] = bench.left()
    assert (left.base_offset, left.last_offset, left.leader_epoch, left.codec) == (
        40, 48, 5, ("none", "gzip", "snappy", "lz4", "zstd").index(compression)
    )  # fmt: skip
    assert (left.producer_id, left.producer_epoch, left.base_sequence, left.last_sequence) == (9, 2, 70, 78)
    assert left.crc_is_valid()
    assert list(left.records()) == [
        Record(43, NOW_MS - 97, b"c", b"3", []),
        Record(44, NOW_MS - 96, b"b", b"4" * 300, []),
        Record(45, NOW_MS - 95, b"a", b"5", []),
    ]
    assert left.max_timestamp_ms == NOW_MS - 95


def test_the_largest_timestamp_is_that_of_what_is_left_unless_it_is_the_brokers() -> None:
    bench = Bench()
    records = [
        Record(0, NOW_MS + 9, b"a", b"1"),
        Record(1, NOW_MS, b"b", b"1"),
        Record(2, NOW_MS - 9, b"a", b""),
    ]
    append_time = TimestampType.LOG_APPEND_TIME
    bench.segment(
        build_batch(records),
        build_batch(
            [record._replace(offset=record.offset + 3, key=b"x") for record in records],
            base_offset=3,
            timestamp_type=append_time,
            append_time_ms=NOW_MS + 77,
        ),
    )
    bench.clean()
    by_producer, by_broker = bench.left()
    assert by_producer.max_timestamp_ms == NOW_MS
    assert (by_broker.max_timestamp_ms, by_broker.timestamp_type) == (NOW_MS + 77, append_time)


def test_headers_and_values_of_any_bytes_come_through() -> None:
    bench = Bench()
    headers = [("trace", b"\xff" * 200), ("none", None)]
    records = [
        Record(0, NOW_MS, b"a", b"gone"),
        Record(1, NOW_MS - 10**12, b"k" * 300, bytes(range(256)) * 40, headers),
        Record(2, NOW_MS + 10**9, b"", b"empty key", headers),
        Record(3, NOW_MS, b"a", None),
    ]
    bench.segment(build_batch(records, compression="lz4"))
    bench.clean()
    [left] = bench.left()
    expected = [record._replace(headers=list(record.headers)) for record in records[1:]]
    assert list(left.records()) == expected, "also where the horizon has moved the base timestamp"
    assert left.delete_horizon_ms == NOW_MS + DAY_MS


def test_a_batch_larger_than_every_buffer_is_cleaned_all_the_same() -> None:
    bench = Bench()
    bench.segment(batch(0, (b"a", b"x" * 300_000), (b"b", b"y" * 300_000), (b"a", b"2")))
    bench.clean(io_buffer_bytes=1000)
    assert offsets(bench.left()) == [1, 2]


# -- tombstones ------------------------------------------------------------------------------------


def test_a_tombstone_stays_for_the_retention_after_it_became_clean() -> None:
    bench = Bench()
    bench.segment(batch(0, (b"a", b"1"), (b"b", b"1"), (b"a", None)))
    result = bench.clean()
    assert [(r.key, r.value) for r in bench.left()[0].records()] == [(b"b", b"1"), (b"a", None)]
    assert bench.left()[0].delete_horizon_ms == result.groups[0].delete_horizon_ms == NOW_MS + DAY_MS
    bench.again(result)
    bench.again(bench.clean(dirty=3, now_ms=NOW_MS + DAY_MS - 1, delete_retention_ms=1))
    assert offsets(list(iter_batches(bench.read(f"/d/{0:020d}.log")))) == [1, 2], "not before its time"
    bench.clean(dirty=3, now_ms=NOW_MS + DAY_MS)
    assert offsets(bench.left()) == [1]


def test_a_tombstone_behind_the_map_gets_no_horizon_yet() -> None:
    bench = Bench()
    first = [(b"%d" % index, b"v") for index in range(6)]
    bench.segment(batch(0, *first), batch(6, (b"x", None)))
    result = bench.clean(dedupe_buffer_bytes=0)
    assert result.cleaned_until_offset == 6
    assert [each.delete_horizon_ms for each in bench.left()] == [None, None]


# -- transactions ----------------------------------------------------------------------------------

ABORTED = AbortedTransaction(7, 1, 4, 0)


def aborted_bench() -> Bench:
    bench = Bench()
    bench.segment(
        batch(0, (b"a", b"old")),
        transactional(1, (b"a", b"1"), (b"b", b"1")),
        transactional(3, (b"c", b"1"), sequence=2),
        marker(4, ControlType.ABORT),
        batch(5, (b"z", b"1")),
    )
    return bench


def test_aborted_records_replace_nothing_and_go() -> None:
    bench = aborted_bench()
    bench.clean(aborted=(ABORTED,))
    assert offsets(bench.left()) == [0, 5]


def test_an_abort_marker_stays_with_its_entry_until_its_records_are_gone_and_then_for_the_retention() -> None:
    bench = aborted_bench()
    result = bench.clean(aborted=(ABORTED,))
    index = TransactionIndex(bench.files, f"/d/{0:020d}.txnindex.cleaned")
    index.load(0)
    assert list(index.entries()) == [ABORTED]
    assert [each.is_control for each in bench.left()] == [False, True, False]
    bench.again(result)
    result = bench.clean(dirty=6, aborted=(ABORTED,))
    assert result.groups[0].aborted_count == 0
    assert not bench.files.exists(f"/d/{0:020d}.txnindex.cleaned"), "and no file of the round before"
    assert bench.left()[1].delete_horizon_ms == NOW_MS + DAY_MS
    assert [record.offset for record in bench.left()[1].records()] == [4]
    bench.again(result)
    bench.clean(dirty=6, now_ms=NOW_MS + DAY_MS - 1)
    assert [each.is_control for each in bench.left()] == [False, True, False]
    bench.clean(dirty=6, now_ms=NOW_MS + DAY_MS)
    assert [each.is_control for each in bench.left()] == [False, False]


def test_a_commit_marker_stays_as_long_as_its_transaction() -> None:
    bench = Bench()
    bench.segment(transactional(0, (b"a", b"1")), marker(1), batch(2, (b"b", b"1")))
    for _ in range(4):
        bench.again(bench.clean(dirty=3, now_ms=NOW_MS + 9 * DAY_MS))
    assert [each.is_control for each in iter_batches(bench.read(f"/d/{0:020d}.log"))] == [False, True, False]


def test_a_transaction_that_reaches_beyond_the_range_is_known_by_its_entry() -> None:
    bench = Bench()
    bench.segment(batch(0, (b"a", b"old")), transactional(1, (b"a", b"1")))
    bench.clean(aborted=(AbortedTransaction(7, 1, 50, 0),))
    assert offsets(bench.left()) == [0]


# -- producers -------------------------------------------------------------------------------------


def test_a_live_producers_last_batch_stays_as_a_shell() -> None:
    bench = Bench()
    bench.segment(
        batch(0, (b"a", b"1"), (b"b", b"1"), producer_id=9, producer_epoch=2, base_sequence=5),
        batch(2, (b"a", b"2"), (b"b", b"2")),
    )
    result = bench.clean(last_records=(LastRecord(9, 2, 1),))
    shell = bench.left()[0]
    assert (shell.count, shell.base_offset, shell.last_offset, shell.last_sequence) == (0, 0, 1, 6)
    assert (shell.producer_id, shell.producer_epoch, shell.codec) == (9, 2, 0)
    assert shell.crc_is_valid()
    bench.again(result)
    bench.again(bench.clean(dirty=4, last_records=(LastRecord(9, 2, 1),)))
    assert [each.count for each in iter_batches(bench.read(f"/d/{0:020d}.log"))] == [0, 2]
    bench.clean(dirty=4)
    assert [each.count for each in bench.left()] == [2], "the producer has been forgotten"


def test_an_aborted_last_batch_stays_as_a_shell_and_its_marker_with_it() -> None:
    bench = aborted_bench()
    last = (LastRecord(7, 1, 3),)
    for _ in range(3):
        result = bench.clean(aborted=(ABORTED,), last_records=last, now_ms=NOW_MS + 9 * DAY_MS)
        assert [(each.is_control, each.count) for each in bench.left()] == [
            (False, 1), (False, 0), (True, 1), (False, 1)
        ]  # fmt: skip
        assert result.groups[0].aborted_count == 1
        bench.again(result)


def test_a_marker_that_holds_a_live_producers_epoch_stays_whole() -> None:
    bench = Bench()
    bench.segment(marker(0, epoch=4), batch(1, (b"a", b"1")))
    last = (LastRecord(7, 4, NO_DATA_OFFSET),)
    for _ in range(3):
        bench.again(bench.clean(last_records=last, now_ms=NOW_MS))
    bench.clean(last_records=last, now_ms=NOW_MS + 9 * DAY_MS)
    assert bench.left()[0].count == 1
    bench.clean(last_records=(LastRecord(7, 5, NO_DATA_OFFSET),), now_ms=NOW_MS + 9 * DAY_MS)
    assert [each.is_control for each in bench.left()] == [False]


def test_the_rounds_last_batch_stays_so_that_the_log_goes_on_where_it_did() -> None:
    bench = Bench()
    bench.segment(batch(0, (b"a", b"1")), transactional(1, (b"b", b"1")))
    bench.clean(until=2, aborted=(AbortedTransaction(7, 1, 50, 0),))
    assert [(each.base_offset, each.count) for each in bench.left()] == [(0, 1), (1, 0)]


# -- segments --------------------------------------------------------------------------------------


def test_neighbours_become_one_segment_as_long_as_they_fit() -> None:
    bench = Bench()
    for base in range(6):
        bench.segment(batch(base, (b"%d" % (base % 5), b"v" * 100)))
    size = bench.sources[0].size_bytes
    result = bench.clean(segment_bytes=2 * size)
    # 0 loses its only record, so 1 and 2 still fit.
    assert [group.sources for group in result.groups] == [(0, 1, 2), (3, 4), (5,)]
    assert [group.base_offset for group in result.groups] == [0, 3, 5]
    assert [group.size_bytes for group in result.groups] == [2 * size, 2 * size, size]
    assert offsets(bench.left(0)) == [1, 2]


def test_offsets_of_a_segment_fit_31_bits_and_its_indexes_their_limit() -> None:
    bench = Bench()
    bench.segment(batch(0, (b"a", b"1")), end=2**31 - 2)
    bench.segment(batch(2**31 - 2, (b"b", b"1")), end=2**31)
    bench.segment(batch(2**31, (b"c", b"1")))
    assert [group.sources for group in bench.clean().groups] == [(0, 2**31 - 2), (2**31,)]
    bench.write(f"/d/{2**31 - 2:020d}.index", bytes(80))
    assert [len(group.sources) for group in bench.clean(segment_index_bytes=79).groups] == [1, 2]


def test_an_emptied_segment_stays_as_a_file_of_no_bytes() -> None:
    bench = Bench()
    bench.segment(batch(0, (b"a", b"1")))
    bench.segment(batch(1, (b"a", b"2")))
    result = bench.clean(segment_bytes=60)
    assert [(group.sources, group.size_bytes) for group in result.groups] == [
        ((0,), 0), ((1,), bench.sources[1].size_bytes)
    ]  # fmt: skip


def test_indexes_lead_to_the_batches() -> None:
    bench = Bench()
    bench.segment(*(batch(3 * i, (b"a%d" % i, b"v" * 90), (b"x", b"y"), (b"x", b"y")) for i in range(50)))
    bench.clean(index_interval_bytes=300)
    index = OffsetIndex(bench.files, f"/d/{0:020d}.index.cleaned")
    times = TimeIndex(bench.files, f"/d/{0:020d}.timeindex.cleaned")
    assert index.load()
    assert times.load()
    places, position = {}, 0
    for each in bench.left():
        places[each.last_offset] = position
        position += each.size_bytes
    assert len(index) > 10
    assert all(places[offset] == place for offset, place in index.entries())
    newest = max(bench.left(), key=lambda each: each.max_timestamp_ms)
    assert times.last() == (newest.max_timestamp_ms, newest.last_offset)


def test_the_file_keeps_the_age_of_its_last_source() -> None:
    bench = Bench()
    bench.segment(batch(0, (b"a", b"1")))
    bench.segment(batch(1, (b"b", b"1")))
    bench.files.set_modified_ms(f"/d/{1:020d}.log", 12_345_000)
    bench.clean()
    assert bench.files.modified_ms(f"/d/{0:020d}.log.cleaned") == 12_345_000


def test_everything_is_on_the_disk_when_the_job_is_done() -> None:
    bench = aborted_bench()
    bench.clean(aborted=(ABORTED,))
    before = {name: bench.read(f"/d/{name}") for name in bench.cleaned_names()}
    assert len(before) == 4
    bench.files.power_cut()
    assert {name: bench.read(f"/d/{name}") for name in bench.cleaned_names()} == before


# -- a full map ------------------------------------------------------------------------------------


def test_a_full_map_ends_the_round_and_the_next_goes_on() -> None:
    bench = Bench()
    for start in (0, 10, 20):
        bench.segment(batch(start, *((b"%d" % index, b"%d" % start) for index in range(10))))
    dirty, rounds = 0, []
    while dirty < 30:
        result = bench.clean(dirty=dirty, until=30, dedupe_buffer_bytes=0, segment_bytes=100)
        assert result.statistics.map_load == 1.0 or result.cleaned_until_offset == 30
        dirty = result.cleaned_until_offset
        rounds.append((dirty, [group.base_offset for group in result.groups]))
        kept = [source for source in bench.sources if source.base_offset >= dirty]
        bench.again(result)
        bench.sources += kept
    assert rounds[0] == (6, [0]), "the sources behind the map's end are not touched"
    assert [end for end, _ in rounds] == [6, 12, 18, 24, 30]
    left = [iter_batches(bench.read(f"/d/{source.base_offset:020d}.log")) for source in bench.sources]
    assert [offset for each in left for offset in offsets(list(each))] == list(range(20, 30))


def test_one_batch_with_more_keys_than_the_map_holds_does_not_stop_the_cleaner() -> None:
    bench = Bench()
    bench.segment(batch(0, *((b"%d" % index, b"v") for index in range(100))))
    dirty = rounds = 0
    while dirty < 100:
        dirty = bench.clean(dirty=dirty, until=100, dedupe_buffer_bytes=0).cleaned_until_offset
        rounds += 1
        assert offsets(bench.left()) == list(range(100))
    assert rounds == 17


# -- trouble ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dirty", [0, 2], ids=["in the dirty part", "in the clean part"])
@pytest.mark.parametrize("place", [70, -1], ids=["records", "end"])
def test_a_damaged_batch_fails_the_job_and_names_the_place(dirty: int, place: int) -> None:
    bench = Bench()
    data = bytearray(batch(0, (b"a", b"1"), (b"b", b"1")))
    data[place] ^= 0x40
    bench.segment(bytes(data))
    bench.segment(batch(2, (b"c", b"1")))
    with pytest.raises(Uncleanable, match=r"00000000000000000000\.log.*position 0.*crc"):
        bench.clean(dirty=dirty)
    assert bench.cleaned_names() == []


@pytest.mark.parametrize("cut", [1, 30, 80])
def test_a_segment_that_breaks_off_fails_the_job(cut: int) -> None:
    bench = Bench()
    whole = batch(0, (b"a", b"1" * 40))
    bench.segment(whole, batch(1, (b"b", b"1" * 40)))
    bench.sources[0] = bench.sources[0]._replace(size_bytes=bench.sources[0].size_bytes - cut)
    with pytest.raises(Uncleanable, match=f"position {len(whole)}"):
        bench.clean()


def test_offsets_that_go_back_or_out_of_the_segment_fail_the_job() -> None:
    for second, end in ((0, 10), (1, 10), (9, 10)):
        bench = Bench()
        bench.segment(
            batch(0, (b"a", b"1"), (b"b", b"1")), batch(second, (b"c", b"1"), (b"d", b"1")), end=end
        )
        with pytest.raises(Uncleanable, match=f"has offset {second}"):
            bench.clean()


def test_records_that_lie_about_their_lengths_fail_the_job() -> None:
    good = batch(0, (b"key", b"value"))
    for place in range(61, len(good)):
        for value in (0, 1, 0x7F, 0xFF):
            data = bytearray(good)
            data[place] = value
            seal(data)
            bench = Bench()
            bench.segment(bytes(data))
            try:
                bench.clean()
            except Uncleanable:
                assert bench.cleaned_names() == []


@pytest.mark.parametrize("operation", ["create", "write", "sync", "sync_directory"])
def test_a_disk_that_refuses_fails_the_job_and_leaves_nothing(operation: str) -> None:
    bench = aborted_bench()
    before = {name: bench.read(f"/d/{name}") for name in bench.files.list_directory("/d")}

    def refuse(what: str, path: str) -> None:
        if what == operation:
            raise OSError(errno.ENOSPC, "no space left on device", path)

    bench.files.fault = refuse
    with pytest.raises(OSError, match="no space"):
        bench.clean(aborted=(ABORTED,))
    bench.files.fault = lambda what, path: None
    assert {name: bench.read(f"/d/{name}") for name in bench.files.list_directory("/d")} == before


def test_no_step_touches_a_source() -> None:
    bench = aborted_bench()
    touched: list[str] = []
    bench.files.fault = lambda what, path: (
        touched.append(path) if what not in ("read", "sync_directory") else None
    )
    bench.clean(aborted=(ABORTED,))
    assert touched
    assert all(path.endswith(".cleaned") for path in touched)


def test_a_batch_that_unpacks_to_too_much_fails_the_job_and_names_the_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewrite, "unpacked", partial(rewrite.unpacked, size_max=100_000))
    bench = Bench()
    bench.segment(batch(0, (b"a", b"1")), batch(1, (b"b", bytes(200_000)), compression="zstd"))
    with pytest.raises(
        Uncleanable, match=r"0\.log: the batch with offset 1 .* unpacks to more than 100000"
    ) as failure:
        bench.clean()
    assert failure.value.batch is None, "consumers may be able to read it"
    assert bench.cleaned_names() == []


def test_a_batch_that_nobody_can_read_fails_the_job_and_is_named_with_the_cause_alone() -> None:
    garbage = bytearray(batch(1, (b"b", b"1"), (b"c", b"1"), compression="zstd"))
    garbage[61:] = b"g" * (len(garbage) - 61)
    seal(garbage)
    bench = Bench()
    bench.segment(batch(0, (b"a", b"1")), bytes(garbage))
    with pytest.raises(Uncleanable, match=r"0\.log: the batch with offset 1 cannot be read") as failure:
        bench.clean()
    assert failure.value.batch is not None
    assert failure.value.batch[:2] == (1, 2)
    assert failure.value.batch.reason.startswith("the records cannot be decompressed: zstd")


BOMB = """
import sys
from pathlib import Path
from moldau.common.core.files import OsFiles
from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.job import CleanJob, Source

def peak_kb():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])

directory, size_bytes, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
before_kb = peak_kb()
job = CleanJob(directory, "t", 0, (Source(0, count, size_bytes),), 0, count, 0, 0)
assert clean(OsFiles(), job).statistics.records_out == 1
print((peak_kb() - before_kb) * 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_small_batch_of_many_equal_records_takes_the_memory_of_its_records_once(
    compression: str, tmp_path: Path, compaction_kernel: str
) -> None:
    count = 140_000  # a buffer that is grown fourfold would end at 256 MiB
    pairs = [(b"key", bytes(500))] * count
    data = batch(0, *pairs, compression=compression)
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    unpacked_bytes = count * 512
    command = [sys.executable, "-c", BOMB, str(tmp_path), str(len(data)), str(count)]
    grown_bytes = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    copies = 1 if compaction_kernel == "compiled" else 2  # (Python's loops want `bytes`.)
    assert grown_bytes < copies * unpacked_bytes + (16 << 20)


# -- pace ------------------------------------------------------------------------------------------


def test_a_job_can_be_stopped_between_any_two_pieces() -> None:
    bench = Bench()
    for base in range(5):
        bench.segment(batch(base, (b"%d" % base, b"v" * 100)))
    asked = 0

    def count() -> bool:
        nonlocal asked
        asked += 1
        return False

    clean(bench.files, bench.job(io_buffer_bytes=200), cancelled=count)
    assert asked > 10
    for name in bench.cleaned_names():
        bench.files.remove(f"/d/{name}")
    for stop in range(1, asked + 1):
        left = stop

        def is_time() -> bool:
            nonlocal left
            left -= 1
            return left == 0

        with pytest.raises(Cancelled):
            clean(bench.files, bench.job(io_buffer_bytes=200), cancelled=is_time)
        assert bench.cleaned_names() == []


def test_reading_and_writing_keep_to_the_rate_and_sleep_in_short_pieces() -> None:
    bench = Bench()
    for base in range(10):
        bench.segment(batch(base, (b"%d" % base, b"v" * 10_000)))
    now, slept = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    clean(
        bench.files,
        bench.job(io_buffer_bytes=1000, io_bytes_per_second=50_000.0),
        monotonic=lambda: now,
        sleep=sleep,
    )
    total = 3 * sum(source.size_bytes for source in bench.sources)
    assert total / 50_000 - 0.2 <= now <= total / 50_000
    assert max(slept) <= 0.1


def test_progress_is_told_in_both_phases_and_ends_at_its_total() -> None:
    bench = Bench()
    for base in range(10):
        bench.segment(batch(base, (b"%d" % base, b"v")))
    now, told = 0.0, list[Progress]()

    def monotonic() -> float:
        nonlocal now
        now += 1.0
        return now

    clean(bench.files, bench.job(), told.append, monotonic=monotonic)
    assert {each.phase for each in told} == {"mapping", "cleaning"}
    assert [each.bytes_done for each in told] == sorted(each.bytes_done for each in told)
    assert told[-1].bytes_done == told[-1].bytes_total
