"""The log's small parts: indexes, epochs, checkpoints, snapshots, retention, descriptors, the reader."""

import pytest

from moldau.broker.log.files.checkpoints import (
    read_epochs,
    read_fields,
    read_offsets,
    write_epochs,
    write_offsets,
)
from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.index import OffsetIndex, TimeIndex
from moldau.broker.log.recovery.loading import partition_name
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.broker.log.state.producers import ProducerBatch, ProducerState
from moldau.broker.log.state.snapshots import decode_snapshot, encode_snapshot
from moldau.broker.log.upkeep.retention import Stretch, expendable
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directory("/d")
    return files


@pytest.mark.parametrize("in_file", [0, 1, 700, 2000])
@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_searches_agree_with_a_list(files: SimulatedFiles, kind: type[OffsetIndex], in_file: int) -> None:
    index = kind(files, "/d/index")
    pairs = [(number * 3 + 1, number * 10) for number in range(2000)]
    for number, (key, value) in enumerate(pairs):
        if number == in_file:
            index.write()
        index.append(key, value)
    for wanted in [*range(-1, 30), *range(1500, 2200, 7), 5997, 5998, 5999, 6000, 10**6]:
        assert index.floor_key(wanted) == next((p for p in reversed(pairs) if p[0] <= wanted), None)
        assert index.floor_value(wanted) == next((p for p in reversed(pairs) if p[1] <= wanted), None)
        assert index.count_below_key(wanted) == sum(key < wanted for key, _ in pairs)
        assert index.count_below_value(wanted) == sum(value < wanted for _, value in pairs)
    for number in (0, 5, 699, 701, 1999):
        assert index.entry(number) == pairs[number]
    assert index.entries() == pairs


@pytest.mark.parametrize("kept", [0, 3, 500, 1000, 1500])
def test_an_index_can_be_cut_and_go_on(files: SimulatedFiles, kept: int) -> None:
    index = OffsetIndex(files, "/d/index")
    pairs = [(number, number * 10) for number in range(1, 1501)]
    for number, pair in enumerate(pairs):
        if number == 1000:
            index.write()
        index.append(*pair)
    assert index.floor_key(400) == (400, 4000)
    index.keep(kept)
    index.append(5000, 50_000)
    index.write()
    again = OffsetIndex(files, "/d/index")
    assert again.load()
    assert again.entries() == [*pairs[:kept], (5000, 50_000)]
    assert again.last() == (5000, 50_000)


def test_epochs_keep_both_columns_rising(files: SimulatedFiles) -> None:
    epochs = LeaderEpochs(files, "/d")
    assert epochs.latest() == -1
    assert epochs.end_offset(0, 10) == (-1, -1)
    assert epochs.assign(1, 5)
    assert not epochs.assign(1, 9)
    assert epochs.assign(4, 20)
    assert epochs.assign(6, 30)
    assert epochs.end_offset(0, 99) == (0, 5)
    assert epochs.end_offset(1, 99) == (1, 20)
    assert epochs.end_offset(3, 99) == (1, 20)
    assert epochs.end_offset(6, 99) == (6, 99)
    assert epochs.end_offset(7, 99) == (-1, -1)
    assert [epochs.epoch_at(offset) for offset in (4, 5, 19, 20, 31)] == [-1, 1, 1, 4, 6]
    assert epochs.assign(5, 25)
    assert epochs.entries() == [(1, 5), (4, 20), (5, 25)]
    assert epochs.assign(7, 20)
    assert epochs.entries() == [(1, 5), (7, 20)]
    epochs.write()
    again = LeaderEpochs(files, "/d")
    again.load()
    assert again.entries() == [(1, 5), (7, 20)]
    assert again.truncate_start(10)
    assert again.entries() == [(1, 10), (7, 20)]
    assert again.truncate_end(20)
    assert again.entries() == [(1, 10)]
    assert not again.truncate_end(11)


def test_checkpoints_have_kafkas_form(files: SimulatedFiles) -> None:
    write_offsets(files, "/d/offsets", {("flights", 0): 12, ("a.b_c-d", 11): 0})
    fd = files.open("/d/offsets")
    assert files.pread(fd, 100, 0) == b"0\n2\nflights 0 12\na.b_c-d 11 0\n"
    assert read_offsets(files, "/d/offsets") == {("flights", 0): 12, ("a.b_c-d", 11): 0}
    write_epochs(files, "/d/epochs", [(0, 0), (3, 17)])
    assert read_epochs(files, "/d/epochs") == [(0, 0), (3, 17)]


@pytest.mark.parametrize(
    "damaged",
    [
        b"0\n2\nflights 0 12\n",
        b"1\n1\nflights 0 12\n",
        b"0\n1\nflights 0 12",
        b"0\n1\nflights x 12\n",
        b"\xff\xfe",
    ],
)
def test_damaged_checkpoints_say_nothing(files: SimulatedFiles, damaged: bytes) -> None:
    files.pwrite(files.open("/d/offsets", create=True), damaged, 0)
    assert read_offsets(files, "/d/offsets") == {}


def test_properties() -> None:
    assert read_fields(b"# comment\n a = b \n\nc=d=e\nid: x\nplain\n") == {
        "a": "b",
        "c": "d=e",
        "id": "x",
    }
    assert read_fields(None) == {}
    with pytest.raises(ValueError, match="line 1"):
        read_fields(b"cluster.id=\\u12\n")


def test_a_snapshot_has_kafkas_form() -> None:
    """The bytes of one producer, worked out by hand from the format's description."""
    batch = ProducerBatch(3, 7, 100, 104, 1000)
    states = {9: ProducerState(2, 7, 104, 1000, -1, -1, (batch,))}
    data = encode_snapshot(states)
    assert data[:2] + data[6:] == bytes.fromhex(
        "0001" "00000001" "0000000000000009" "0002" "00000007" "0000000000000068" "00000004"
        "00000000000003e8" "ffffffff" "ffffffffffffffff"
    )  # fmt: skip
    assert decode_snapshot(data) == states
    for position in range(2, len(data)):
        with pytest.raises(ValueError, match="snapshot"):
            decode_snapshot(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])


def stretches(*sizes_and_times: tuple[int, int]) -> list[Stretch]:
    return [Stretch(i * 10, i * 10 + 10, size, newest) for i, (size, newest) in enumerate(sizes_and_times)]


@pytest.mark.parametrize(
    ("settings", "log_start", "high_watermark", "expected"),
    [
        ({"retention_ms": 100}, 0, 99, 2),
        ({"retention_ms": 100}, 0, 15, 1),
        ({"retention_ms": -1}, 0, 99, 0),
        ({"retention_ms": -1, "retention_bytes": 250}, 0, 99, 0),
        ({"retention_ms": -1, "retention_bytes": 200}, 0, 99, 1),
        ({"retention_ms": -1, "retention_bytes": 0}, 0, 99, 3),
        ({"retention_ms": -1}, 25, 99, 2),
        ({"retention_ms": 1, "cleanup_policy": ("compact",)}, 0, 99, 0),
        ({"retention_ms": 1, "cleanup_policy": ("compact",)}, 10, 99, 1),
        ({"retention_ms": 1}, 0, 99, 3),
    ],
)
def test_retention(settings: dict[str, object], log_start: int, high_watermark: int, expected: int) -> None:
    three = stretches((100, 500), (100, 800), (100, 950))
    count = expendable(three, TopicSettings(**settings), log_start, high_watermark, 1000)
    assert count == expected


def test_an_empty_last_segment_stays() -> None:
    two = stretches((100, 1), (0, 1))
    assert expendable(two, TopicSettings(retention_ms=1), 0, 99, 1000) == 1
    assert expendable(two, TopicSettings(retention_ms=1), 0, 99, 1000, by_settings=False) == 0


class Holder:
    def __init__(self) -> None:
        self.touched = False
        self.open = True

    def release_descriptor(self) -> None:
        self.open = False


def test_the_longest_unused_descriptor_is_closed() -> None:
    limit = DescriptorLimit(3)
    holders = [Holder() for _ in range(3)]
    for holder in holders:
        limit.opened(holder)
    holders[0].touched = True
    limit.opened(Holder())
    assert [holder.open for holder in holders] == [True, False, True]
    assert len(limit) == 3
    limit.closed(holders[0])
    assert len(limit) == 2


def test_descriptors_in_constant_use_do_not_stop_the_rest() -> None:
    limit = DescriptorLimit(2)
    holders = [Holder() for _ in range(5)]
    for holder in holders:
        holder.touched = True
        limit.opened(holder)
    assert len(limit) == 2
    assert holders[-1].open


def test_names_of_partition_directories() -> None:
    assert partition_name("a-b.c_d-12") == ("a-b.c_d", 12)
    for other in ("flights", "flights-", "flights-01", "-5", "flights-0.abc-delete", "flights-0.1-stray"):
        assert partition_name(other) is None


def test_a_reader_that_goes_on_searches_nothing() -> None:
    files = SimulatedFiles()
    log = open_log(files, "/d/t-0", "t", 0, TopicSettings(internal_segment_bytes=1500)).log
    for _ in range(40):
        log.leader.append(memoryview(build_simple_batch([(b"k", b"v" * 30)], 1)), leader_epoch=0, now_ms=1)
    log.writer.flush_staged()
    size = 40 * len(build_simple_batch([(b"k", b"v" * 30)], 1))
    reads = 0

    def count(operation: str, path: str) -> None:
        nonlocal reads
        reads += operation == "read"

    files.fault = count
    assert len(log.reader.read(0, 1 << 20, end_offset=40)) <= size
    assert len(log.segments) > 1
    boundary = log.segments[-1].base_offset
    log.reader.read(boundary, 1 << 20, end_offset=40)
    for _ in range(20):
        log.leader.append(memoryview(build_simple_batch([(b"k", b"v")], 1)), leader_epoch=0, now_ms=1)
        log.writer.flush_staged()
        reads = 0
        end = log.written_end_offset
        assert len(log.reader.read(end - 1, 1 << 20, end_offset=end)) == len(
            build_simple_batch([(b"k", b"v")], 1)
        )
        assert reads == 0, "the latest write is still in memory"
        assert len(log.reader.read(end - 2, 1 << 20, end_offset=end)) > 0
        assert reads <= 3, "one read that brings the batches, and at most a look for where they begin"
