"""Entries of the ledger: who is in charge, and which is the newest."""

from __future__ import annotations

from moldau.client.ledger import EARLIER_RUNS_MAX, Entry, _newest, parse_entry
from moldau.common.core.sink_ledger import is_sink_ledger


def test_entries_follow_each_other() -> None:
    first = Entry("query", "run-1", 0)
    again = first.next("query", "run-1", 1)
    assert again == Entry("query", "run-1", 1)
    taken_over = again.next("query", "run-2", 2)
    assert taken_over == Entry("query", "run-2", 2, turn=1, earlier_runs=("run-1",))
    other_numbers = taken_over.next("other", "run-2", 0)
    assert other_numbers == Entry("other", "run-2", 0, turn=2, earlier_runs=("run-1",))


def test_newest_is_that_of_the_last_turn() -> None:
    one = Entry("query", "run-1", 90)
    two = one.next("query", "run-2", 2)
    three = two.next("query", "run-2", 3)
    texts = [(entry.batch_id, entry.text()) for entry in (three, one, two)]
    assert _newest([*texts, (5, ""), (6, "[1]"), (7, "{}")]) == three
    assert _newest([]) is None


def test_text_round_trips_and_fits_a_broker() -> None:
    entry = Entry("q" * 36, "0" * 36, 5)
    for number in range(100):
        entry = entry.next("q" * 36, f"{number:036d}", 5)
    assert len(entry.earlier_runs) == EARLIER_RUNS_MAX
    assert parse_entry(5, entry.text()) == entry
    assert len(entry.text()) < 4096


def test_entries_are_told_from_offsets() -> None:
    entry = Entry("query", "run-1", 0)
    assert is_sink_ledger(entry.text())
    assert is_sink_ledger(entry.next("query", "run-2", 1).text())
    assert is_sink_ledger(entry.text() + "\x01\ufffd")
    notes = ["", None, "note", "{}", '{"stream":1}', '{"stream":', entry.text()[:-1], f" {entry.text()}"]
    assert not any(is_sink_ledger(note) for note in notes)
