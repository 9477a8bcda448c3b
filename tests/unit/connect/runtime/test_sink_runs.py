"""Which messages make a run, and what is noted of runs: pure machines, with messages that are tuples' kin."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from moldau.connect import TopicPartition
from moldau.services.connect.runtime.sink_notes import Notes, notes_from
from moldau.services.connect.runtime.sink_partitions import SinkPartition

PLACE = TopicPartition("orders", 3)


@dataclass(frozen=True)
class Message:
    at: int
    size: int = 1

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return b"x" * self.size

    def key(self) -> bytes | None:
        return None


def messages(*offsets: int) -> list[Message]:
    return [Message(each) for each in offsets]


def spans(runs) -> list[tuple[list[int], int, bool]]:
    return [([each.at for each in run.messages], run.end, run.noted) for run in runs]


def partition(start: int | None, metadata: str = "", committed: int | None = None) -> SinkPartition:
    return SinkPartition(PLACE, start, notes_from(start if committed is None else committed, metadata))


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        (Notes(10), ""),
        (Notes(10, [20]), '{"to":20}'),
        (Notes(10, [20, 25]), '{"to":[20,25]}'),
        (Notes(10, [20], {11, 13, 14, 15}), '{"to":20,"bad":[1,[3,5]]}'),
    ],
)
def test_notes_are_what_was_noted(notes: Notes, text: str):
    assert notes.text() == text
    assert notes_from(notes.committed, text) == notes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "{",
        '{"to":"a"}',
        '{"to":[5,3]}',
        '{"to":4}',
        "[1]",
        '{"bad":[[5,1]]}',
        '{"bad":[[0,99999999]]}',
        "null",
    ],
)
def test_what_others_wrote_into_the_metadata_means_nothing(text: str):
    assert notes_from(10, text) == Notes(10)
    assert notes_from(None, '{"to":20}') == Notes(None)


def test_notes_end_with_what_is_committed_and_never_go_back():
    notes = Notes(10, [20, 30], {12, 25})
    notes.advance(20)
    assert notes == Notes(20, [30], {25})
    notes.advance(15)
    assert notes.committed == 20


def test_too_much_for_a_coordinator_is_refused():
    with pytest.raises(ValueError, match="do not fit"):
        Notes(0, [], set(range(0, 8000, 4))).text()


def test_noted_runs_come_whole_however_they_are_polled_and_then_new_ones():
    one = partition(10, '{"to":[13,16]}')
    assert spans(one.take(messages(10, 11), 99)) == []
    assert spans(one.take(messages(12, 13, 14, 15, 16, 17), 99)) == [
        ([10, 11, 12], 13, True),
        ([13, 14, 15], 16, True),
        ([16, 17], 18, False),
    ]


def test_a_noted_run_that_lost_records_ends_at_the_next_record_or_the_partitions_end():
    one = partition(10, '{"to":[13,16]}')
    assert spans(one.take(messages(10, 14), 99)) == [([10], 13, True)]
    assert spans(one.reached_end(15)) == []
    assert spans(one.reached_end(16)) == [([14], 16, True)]
    gone = partition(10, '{"to":13}')
    assert spans(gone.take(messages(50), 99)) == [([50], 51, False)]


def test_runs_are_cut_by_bytes_and_old_messages_are_left_out():
    one = partition(5)
    made = one.take([Message(4), Message(5, 3), Message(6, 3), Message(7, 99), Message(8)], 6)
    assert spans(made) == [([5, 6], 7, False), ([7], 8, False), ([8], 9, False)]
    assert one.position == 9


def test_after_a_rewind_the_same_runs_come_again():
    chance = random.Random(5)
    for _ in range(50):
        offsets = sorted(chance.sample(range(100), 40))
        one = partition(None)
        runs, rest = [], offsets
        while rest:
            count = chance.randint(1, 7)
            for run in one.take(messages(*rest[:count]), 99):
                if one.notes.committed is None:
                    one.notes.committed = run.first
                one.notes.ends.append(run.end)
                runs.append(run)
            rest = rest[count:]
        one = partition(one.notes.committed, one.notes.text())
        again, rest = [], offsets
        while rest:
            count = chance.randint(1, 7)
            again += one.take(messages(*rest[:count]), 99)
            rest = rest[count:]
        assert [(run.first, run.end) for run in again] == [(run.first, run.end) for run in runs]
        assert [run.messages for run in again] == [run.messages for run in runs]
