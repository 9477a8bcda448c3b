"""Ids of a draft and of its group: a copy's changes are its own until it settles, and it costs nothing."""

import random

from moldau.broker.coordinator.group.classic.pending_ids import PendingIds


def test_any_row_of_changes_gives_what_a_plain_set_gives() -> None:
    source = random.Random(5)
    held, expected = PendingIds(), set[str]()
    for _ in range(3000):
        draft, drafted = held.copy(), set(expected)
        for _ in range(source.randrange(4)):
            member_id = str(source.randrange(12))
            if source.random() < 0.5:
                draft.add(member_id)
                drafted.add(member_id)
            else:
                draft.discard(member_id)
                drafted.discard(member_id)
        assert (list(draft), len(draft), bool(draft)) == (sorted(drafted), len(drafted), bool(drafted))
        assert [str(each) in draft for each in range(12)] == [str(each) in drafted for each in range(12)]
        assert list(draft.copy()) == sorted(drafted)
        assert list(held) == sorted(expected), "a draft that is thrown away changes nothing"
        if source.random() < 0.5:
            draft.settle()
            held, expected = draft, drafted
            assert list(held) == sorted(expected)


def test_a_copy_shares_what_it_does_not_change() -> None:
    held = PendingIds()
    for number in range(1000):
        held.add(str(number))
    held.settle()
    draft = held.copy()
    draft.add("new")
    assert draft._ids is held._ids
    assert len(draft._added) == 1
