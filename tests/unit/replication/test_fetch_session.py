"""Fetch sessions (KIP-227): epochs, incremental changes, and who gives way when the slots are full."""

import random

import pytest

from moldau.broker.replication.fetch_session import TARGETS_MAX, FetchSessions, Targets, targets_of, update
from moldau.common.protocol.errors import ErrorCode


def targets(count: int = 2) -> Targets:
    return targets_of([(b"t", [(index, -1, 10 * index, -1, -1, 1000) for index in range(count)])])


def sessions(slots: int = 2) -> FetchSessions:
    return FetchSessions(slots, random.Random(1))


def test_an_incremental_request_goes_on_where_the_last_one_ended() -> None:
    table = sessions()
    session_id = table.open(False, targets(), 0)
    for epoch in (1, 2, 3):
        session = table.resume(session_id, epoch, False, epoch)
        assert not isinstance(session, int)
        assert len(session.targets) == 2


def test_wrong_ids_epochs_and_kinds_are_refused() -> None:
    table = sessions()
    session_id = table.open(False, targets(), 0)
    assert table.resume(session_id + 1, 1, False, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert table.resume(session_id, 2, False, 0) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert table.resume(session_id, 1, True, 0) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert not isinstance(table.resume(session_id, 1, False, 0), int)
    table.close(session_id)
    assert table.resume(session_id, 2, False, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_epoch_begins_again_at_one() -> None:
    table = sessions()
    session_id = table.open(False, targets(), 0)
    session = table.resume(session_id, 1, False, 0)
    assert not isinstance(session, int)
    session.epoch = (1 << 31) - 1
    assert not isinstance(table.resume(session_id, (1 << 31) - 1, False, 0), int)
    assert not isinstance(table.resume(session_id, 1, False, 0), int)


def test_full_slots_turn_newcomers_away_until_one_has_been_idle() -> None:
    table = sessions(slots=2)
    first = table.open(False, targets(), 0)
    second = table.open(False, targets(), 0)
    assert table.open(False, targets(), 1_000) == 0
    table.resume(first, 1, False, 100_000)  # used lately: the other one gives way
    third = table.open(False, targets(), 125_000)
    assert third
    assert table.evicted_count == 1
    assert table.resume(second, 1, False, 125_000) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not isinstance(table.resume(first, 2, False, 125_000), int)


def test_nothing_to_fetch_needs_no_session() -> None:
    assert sessions().open(False, Targets(), 0) == 0
    assert sessions(slots=0).open(False, targets(), 0) == 0


def test_update_changes_adds_and_forgets_and_keeps_the_order() -> None:
    kept = targets(3)
    update(kept, [(b"t", [(1, 4, 99, -1, -1, 5)]), (b"u", [(0, -1, 7, -1, -1, 5)])], [(b"t", [2, 8])])
    assert list(kept) == [(b"t", 0), (b"t", 1), (b"u", 0)]
    assert (kept[b"t", 1].offset, kept[b"t", 1].leader_epoch, kept[b"t", 1].limit_bytes) == (99, 4, 5)


def test_a_client_that_asks_for_too_many_partitions_gets_no_session() -> None:
    assert sessions().open(False, targets(TARGETS_MAX), 0)
    assert sessions().open(False, targets(TARGETS_MAX + 1), 0) == 0


def test_followers_always_get_a_session_in_the_place_of_the_client_that_was_idle_longest() -> None:
    table = sessions(slots=2)
    first = table.open(False, targets(), 0, of_follower=True)
    client = table.open(False, targets(), 10)
    assert table.open(False, targets(), 1_000) == 0
    second = table.open(False, targets(), 1_000, of_follower=True)
    assert second
    assert table.resume(client, 1, False, 1_000) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not isinstance(table.resume(first, 1, False, 1_000), int)
    assert table.open(False, targets(), 1_000, of_follower=True) == 0, "all belong to followers"


@pytest.mark.parametrize(("leader_epoch", "offset", "told"), [(5, 10, -1), (4, 9, -1), (4, 11, 70)])
def test_what_was_told_in_another_epoch_or_before_a_truncation_is_told_again(
    leader_epoch: int, offset: int, told: int
) -> None:
    """A follower drops a response that comes after its epoch changed: else it would never hear of the high
    watermark in it while nothing is appended.
    """
    kept = targets_of([(b"t", [(0, 4, 10, -1, -1, 1000)])])
    target = kept[b"t", 0]
    target.told_high_watermark = target.told_start_offset = 70
    update(kept, [(b"t", [(0, leader_epoch, offset, -1, -1, 1000)])], ())
    assert (target.told_high_watermark, target.told_start_offset) == (told, told)
