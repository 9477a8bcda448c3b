"""Which offsets of a log's batches are records that members of a share group may get."""

from moldau.broker.share.log_parts import BATCHES_MAX, log_parts
from moldau.common.records import control
from moldau.common.records.batch import HEADER
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record


def batch(first: int, count: int, **fields: object) -> bytes:
    rows = [Record(offset, 1000, None, b"v", ()) for offset in range(count)]
    return placed(bytes(build_batch(rows, **fields)), first)  # type: ignore[arg-type]


def placed(data: bytes, first: int) -> bytes:
    """The batch at another base offset."""
    return first.to_bytes(8, "big") + data[8:]


def sparse(first: int, offsets: list[int], last: int) -> bytes:
    """A batch as compaction leaves it: some records, all offsets up to `last`."""
    rows = [Record(offset - first, 1000, None, b"v", ()) for offset in offsets]
    return placed(bytes(build_batch(rows, last_offset_delta=last - first)), first)


def told(
    data: bytes, offset: int, aborted: list[tuple[int, int]] | None = None, wanted: int = 1000
) -> list[tuple[int, int, bool]]:
    return [
        (first, last, deliverable)
        for first, last, deliverable, _ in log_parts(data, offset, aborted, wanted).parts
    ]


def test_batches_from_the_offset_on() -> None:
    data = batch(10, 5) + batch(15, 3)
    assert told(data, 12) == [(12, 14, True), (15, 17, True)]
    assert told(data, 15) == [(15, 17, True)]


def test_offsets_between_batches_and_in_them_that_compaction_has_emptied() -> None:
    data = batch(10, 2) + sparse(20, [21, 22, 25], 30) + batch(31, 1)
    assert told(data, 5) == [
        (5, 9, False),
        (10, 11, True),
        (12, 19, False),
        (20, 20, False),
        (21, 22, True),
        (23, 24, False),
        (25, 25, True),
        (26, 30, False),
        (31, 31, True),
    ]
    assert told(sparse(0, [], 99), 0) == [(0, 99, False)]


def test_a_batch_with_ten_million_offsets_costs_nothing() -> None:
    assert told(sparse(0, [0, 9_999_999], 9_999_999), 0) == [
        (0, 0, True),
        (1, 9_999_998, False),
        (9_999_999, 9_999_999, True),
    ]


def test_control_records_and_aborted_ones() -> None:
    marker = bytes(
        control.build_end_transaction_marker(
            EndTransactionMarker(ControlType.ABORT, 0), producer_id=7, producer_epoch=0, timestamp_ms=1000
        )
    )
    mine = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = batch(0, 2, **mine) + batch(2, 2) + placed(marker, 4) + batch(5, 1, **mine)
    assert told(data, 0) == [(0, 1, True), (2, 3, True), (4, 4, False), (5, 5, True)]
    assert told(data, 0, [(7, 0)]) == [(0, 1, False), (2, 3, True), (4, 4, False), (5, 5, True)]


def test_no_more_is_looked_at_than_wanted() -> None:
    data = b"".join(batch(offset, 1) for offset in range(BATCHES_MAX + 50))
    assert len(told(data, 0, wanted=5)) == 5
    assert len(told(data, 0, wanted=10_000)) == BATCHES_MAX


def test_the_bytes_around_what_was_acquired() -> None:
    one, two, three = batch(0, 5), batch(5, 5), batch(10, 5)
    data = one + two + three
    found = log_parts(data, 0, None, 1000)
    assert bytes(found.bytes_of(data, 6, 7)) == two
    assert bytes(found.bytes_of(data, 4, 5)) == one + two
    assert len(data) > HEADER.size
    assert log_parts(data[:-1], 0, None, 1000).parts[-1].last == 9
