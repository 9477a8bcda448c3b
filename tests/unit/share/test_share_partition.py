"""The state machine of a share-partition: what members get, and what becomes of it."""

from collections.abc import Iterator

from moldau.broker.share.record_runs import RecordRuns, Run
from moldau.broker.share.share_partition import (
    Ack,
    AckType,
    Acquired,
    Limits,
    LogPart,
    SharePartition,
    StateBatch,
    Wanted,
)
from moldau.common.protocol.errors import ErrorCode

LIMITS = Limits(lock_ms=30_000, deliveries_max=3, locks_max=200)
ALL = Wanted(500, 500, strict=False)
ACCEPT, RELEASE, REJECT, RENEW, GAP = ((kind,) for kind in (1, 2, 3, 4, 0))


def batches(*ends: int, start: int = 0) -> list[LogPart]:
    """Batches that touch one another, up to these last offsets."""
    parts = []
    for number, last in enumerate(ends):
        parts.append(LogPart(start, last, True, number))
        start = last + 1
    return parts


def acquire(
    partition: SharePartition, member: str, *ends: int, wanted: Wanted = ALL, now_ms: float = 0
) -> list[Acquired]:
    return partition.acquire(member, batches(*ends), wanted, LIMITS, now_ms)


def acknowledge(
    partition: SharePartition, member: str, *acks: tuple[int, int, tuple[int, ...]], now_ms: float = 0
) -> int:
    return partition.acknowledge(member, [Ack(*each) for each in acks], LIMITS, now_ms).error_code


def write(partition: SharePartition) -> list[tuple[int, int, int, int]]:
    """Commit what is to be written: the start offset is checked by the caller."""
    taken = partition.take_write()
    if taken is None:
        return []
    partition.written()
    return [tuple(each) for each in taken.batches]  # type: ignore[misc]


def test_whole_batches_are_acquired_until_there_are_enough_records() -> None:
    partition = SharePartition(0)
    assert acquire(partition, "a", 9, 19, 29, wanted=Wanted(12, 10, strict=False)) == [(0, 9, 1), (10, 19, 1)]
    assert partition.next_offset(LIMITS) == 20


def test_a_strict_limit_cuts_batches() -> None:
    partition = SharePartition(0)
    assert acquire(partition, "a", 9, 19, wanted=Wanted(12, 100, strict=True)) == [(0, 11, 1)]
    assert acquire(partition, "b", 9, 19, wanted=Wanted(100, 100, strict=True)) == [(12, 19, 1)]


def test_accepted_records_move_the_start_once_those_before_are_done() -> None:
    partition = SharePartition(0)
    acquire(partition, "a", 9)
    assert acknowledge(partition, "a", (5, 9, ACCEPT)) == 0
    assert (partition.start_offset, write(partition)) == (0, [(5, 9, 2, 1)])
    assert acknowledge(partition, "a", (0, 4, ACCEPT)) == 0
    taken = partition.take_write()
    assert taken is not None
    assert (taken.start_offset, taken.batches, taken.ended_count) == (10, (), 0)


def test_released_records_come_again_when_that_is_written_and_are_archived_at_the_limit() -> None:
    partition = SharePartition(0)
    for count in (1, 2, 3):
        assert acquire(partition, "a", 9) == [(0, 9, count)]
        assert acknowledge(partition, "a", (0, 9, RELEASE)) == 0
        assert acquire(partition, "b", 9) == []
        write(partition)
    assert acquire(partition, "a", 9) == []
    assert partition.start_offset == 10


def test_an_acknowledgement_of_what_another_member_has_changes_nothing() -> None:
    partition = SharePartition(0)
    acquire(partition, "a", 4, wanted=Wanted(5, 5, strict=False))
    acquire(partition, "b", 4, 9)
    assert acknowledge(partition, "a", (0, 4, ACCEPT), (5, 9, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
    assert acknowledge(partition, "a", (0, 12, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
    assert partition.acquired_count("a") == 5
    assert partition.take_write() is None


def test_malformed_acknowledgements_are_refused() -> None:
    partition = SharePartition(0)
    acquire(partition, "a", 9)
    for acks in (
        [(3, 2, ACCEPT)],
        [(0, 9, (1, 1))],
        [(0, 9, (9,))],
        [(5, 6, ACCEPT), (0, 1, ACCEPT)],
        [(0, 9, ())],
    ):
        assert acknowledge(partition, "a", *acks) == ErrorCode.INVALID_REQUEST
    renew = partition.acknowledge("a", [Ack(0, 9, RENEW)], LIMITS, 0, may_renew=False)
    assert renew.error_code == ErrorCode.INVALID_REQUEST
    assert partition.acquired_count("a") == 10


def test_a_type_for_each_offset() -> None:
    partition = SharePartition(0)
    acquire(partition, "a", 5)
    assert acknowledge(partition, "a", (0, 5, (1, 1, 3, 2, 0, 1))) == 0
    taken = partition.take_write()
    assert taken is not None
    assert (taken.start_offset, taken.ended_count) == (3, 2)
    assert taken.batches == (StateBatch(3, 3, 0, 1), StateBatch(4, 4, 4, 1), StateBatch(5, 5, 2, 1))
    partition.written()
    assert acquire(partition, "b", 5) == [(3, 3, 2)]


def test_an_acknowledgement_that_comes_again_waits_for_the_same_write() -> None:
    partition = SharePartition(0)
    acquire(partition, "a", 9)
    first = partition.acknowledge("a", [Ack(2, 9, ACCEPT)], LIMITS, 0)
    partition.take_write()
    again = partition.acknowledge("a", [Ack(2, 9, ACCEPT)], LIMITS, 0)
    assert again == first
    assert not partition.is_written(first.version)
    other = partition.acknowledge("a", [Ack(2, 9, RELEASE)], LIMITS, 0)
    assert other.error_code == ErrorCode.INVALID_RECORD_STATE
    partition.written()
    assert partition.is_written(first.version)
    assert acknowledge(partition, "a", (2, 9, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE


def test_locks_end_and_renewed_ones_later() -> None:
    partition = SharePartition(0)
    acquire(partition, "a", 9, now_ms=1000)
    assert acknowledge(partition, "a", (3, 4, RENEW), now_ms=20_000) == 0
    assert partition.earliest_ms() == 31_000
    assert not partition.expire(LIMITS, 30_999)
    assert partition.expire(LIMITS, 31_000)
    assert write(partition) == [(0, 2, 0, 1), (5, 9, 0, 1)]
    assert acquire(partition, "b", 9) == [(0, 2, 2), (5, 9, 2)]
    assert partition.expire(LIMITS, 50_000)
    assert partition.acquired_count("a") == 0


def test_a_session_that_ends_releases_what_it_holds() -> None:
    partition = SharePartition(0)
    acquire(partition, "a", 9)
    assert partition.release("a", LIMITS)
    assert not partition.release("a", LIMITS)
    write(partition)
    assert acquire(partition, "b", 9) == [(0, 9, 2)]


def test_no_more_is_in_flight_than_the_limit_however_large_a_gap_is() -> None:
    partition = SharePartition(0)
    gap = [LogPart(0, 0, True, 0), LogPart(1, 10_000_000, False, 0), LogPart(10_000_001, 10_000_900, True, 1)]
    got = partition.acquire("a", gap, Wanted(5000, 500, strict=False), LIMITS, 0)
    assert got == [(0, 0, 1), (10_000_001, 10_000_199, 1)]
    assert partition.next_offset(LIMITS) is None
    assert acknowledge(partition, "a", (0, 0, ACCEPT)) == 0
    assert partition.start_offset == 10_000_001
    assert partition.next_offset(LIMITS) == 10_000_200


def test_records_that_are_deleted_from_the_log_are_forgotten() -> None:
    partition = SharePartition(0)
    acquire(partition, "a", 9)
    partition.log_starts_at(5)
    assert (partition.start_offset, partition.acquired_count("a")) == (5, 5)
    assert acknowledge(partition, "a", (0, 9, ACCEPT)) == 0
    partition.log_starts_at(50)
    assert (partition.start_offset, partition.end_offset, partition.acquired_count()) == (50, 50, 0)


def test_what_was_read_from_the_coordinator() -> None:
    partition = SharePartition(
        10, [StateBatch(10, 11, 2, 1), StateBatch(15, 19, 0, 2), StateBatch(14, 14, 4, 3)]
    )
    assert (partition.start_offset, partition.end_offset) == (12, 20)
    parts = [LogPart(0, 30, True, 0)]
    assert partition.acquire("a", parts, ALL, LIMITS, 0) == [(12, 13, 1), (15, 19, 3), (20, 30, 1)]


def test_locks_that_hold_nothing_do_not_pile_up() -> None:
    partition = SharePartition(0)
    for offset in range(2000):
        partition.acquire("a", [LogPart(offset, offset, True, offset)], ALL, LIMITS, 0)
        assert acknowledge(partition, "a", (offset, offset, ACCEPT)) == 0
        write(partition)
    assert len(partition._locks) < 300
    assert not partition._locks_of
    assert AckType.ACCEPT == 1


def test_nobody_gets_a_record_before_the_start_that_was_chosen_is_written() -> None:
    partition = SharePartition(7)
    partition.start_chosen()
    assert partition.next_offset(LIMITS) is None
    taken = partition.take_write()
    assert taken is not None
    assert taken.start_offset == 7
    assert partition.next_offset(LIMITS) is None
    partition.written()
    assert partition.next_offset(LIMITS) == 7


def test_locks_that_lie_within_one_another_end_in_one_walk() -> None:
    count = 4000
    limits = LIMITS._replace(locks_max=count)
    partition = SharePartition(0)
    partition.acquire("a", batches(count - 1), Wanted(count, count, strict=False), limits, 0)
    for offset in range(count // 2 - 1):
        pair = [Ack(offset, offset, RENEW), Ack(count - 1 - offset, count - 1 - offset, RENEW)]
        assert partition.acknowledge("a", pair, limits, offset).error_code == 0
    looked_at = 0
    between = partition.records.between

    def counted(first: int, last: int) -> Iterator[Run]:
        nonlocal looked_at
        for run in between(first, last):
            looked_at += 1
            yield run

    partition.records.__class__ = type("Counted", (RecordRuns,), {"__slots__": ()})
    type(partition.records).between = staticmethod(counted)  # type: ignore[method-assign, assignment]
    assert partition.release("a", limits)
    assert looked_at <= count
    assert partition.acquired_count() == 0
    assert [tuple(each) for each in partition.take_write().batches] == [(0, count - 1, 0, 1)]
