"""The machine of a mirrored partition: what it fetches, cuts and refuses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirror_model import Model, Row

from moldau.broker.mirror.machine import Ends, State
from moldau.broker.mirror.outputs import Fault


def test_a_copy_follows_and_says_once_that_it_has_begun() -> None:
    model = Model()
    model.write(10)
    model.settle()
    model.write(5, gap=7)
    model.settle()
    assert model.copy.rows == model.source.rows
    assert model.started == 1
    assert model.machine.lost_seconds(model.now_ms + 2000) == pytest.approx(2.0, abs=0.1)


def test_it_begins_where_the_source_does() -> None:
    model = Model()
    model.write(10)
    model.source.delete_to(6)
    model.settle()
    assert (model.copy.start, model.copy.end) == (6, 10)
    assert model.machine.missed == 0


def test_deleted_records_are_deleted_here_and_what_was_missed_is_counted() -> None:
    model = Model()
    model.write(10)
    model.settle()
    model.source.delete_to(4)
    model.write()
    model.settle()
    assert model.copy.start == 4
    model.write(10)
    model.source.delete_to(15)
    model.settle()
    assert (model.copy.start, model.copy.end, model.machine.missed) == (15, 21, 4)


def test_what_an_unclean_election_lost_is_cut_off_and_counted() -> None:
    model = Model()
    model.write(10)
    model.settle()
    model.elect(lost=4)
    model.write(2)
    model.settle()
    assert model.copy.rows == model.source.rows
    assert model.machine.lost == 4


def test_without_epochs_a_shorter_source_is_cut_off_too() -> None:
    model = Model(has_epochs=False)
    model.write(10)
    model.settle()
    model.elect(lost=4)
    model.settle()
    assert model.copy.rows == model.source.rows
    assert model.machine.lost == 4


def test_a_source_that_was_emptied_is_a_fault_and_nothing_is_cut() -> None:
    model = Model()
    model.write(10)
    model.source.delete_to(5)
    model.settle()
    before = list(model.copy.rows)
    model.source.begin_at(0)
    model.elect()
    model.settle()
    assert model.machine.state is State.FAULTED
    assert "nothing of what the copy holds" in model.faults[0]
    assert model.copy.rows == before


def test_a_batch_of_a_higher_epoch_waits_until_the_own_epoch_is_as_high() -> None:
    model = Model(has_epochs=False)
    model.write(2)
    model.settle()
    model.elect()
    model.write(2)
    model.settle()
    assert model.own_epoch == model.source_epoch == 1
    assert model.copy.rows == model.source.rows


def test_after_a_failover_what_was_written_here_is_cut_off() -> None:
    model = Model()
    model.write(5)
    model.settle()
    for value in (100, 101):
        model.copy.append(Row(model.copy.end, 7, value))  # in an epoch of its own
    model.write(1)
    reversed_model = Model()
    reversed_model.source, reversed_model.copy, reversed_model.own_epoch = model.source, model.copy, 7
    reversed_model.settle()
    assert reversed_model.copy.rows == model.source.rows
    assert reversed_model.machine.lost == 2


def test_a_copy_of_which_nothing_would_be_left_is_a_fault() -> None:
    model = Model()
    model.write(3)
    for value in (100, 101):
        model.copy.append(Row(model.copy.end, 7, value))
    model.own_epoch = 7
    model.settle()
    assert "nothing of what the copy holds (offsets 0 to 2)" in model.faults[0]
    assert len(model.copy.rows) == 2


def test_a_source_that_lost_everything_takes_nothing_from_the_copy() -> None:
    model = Model()
    model.write(10)
    model.settle()
    model.elect(lost=10)
    model.write(3)
    model.settle()
    assert model.machine.state is State.FAULTED
    assert len(model.copy.rows) == 10


def test_another_record_at_the_place_of_the_last_one_is_a_fault() -> None:
    model = Model(has_epochs=False)
    model.write(5)
    for offset in range(3):
        model.copy.append(Row(offset, 0, 100 + offset))
    model.settle()
    assert "another batch at offset 2" in model.faults[0]
    assert len(model.copy.rows) == 3


def test_errors_pause_longer_and_longer_and_end() -> None:
    model = Model()
    model.write(1)
    model.settle()
    pauses = []
    for _ in range(4):
        model.machine.failed("the disk is full", 0.0)
        pauses.append(model.machine.resume_ms)
        model.machine.state = State.FETCHING
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1]
    model.machine.failed("again", model.now_ms)
    model.settle()
    assert model.machine.problem == ""


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_the_source_does_the_copy_ends_as_it_is(data: st.DataObject) -> None:
    """Writes, gaps, deletions, elections clean and unclean, at any moment: the copy is always a part of some
    history of the source, and equal to it in the end."""
    model = Model(has_epochs=data.draw(st.booleans()))
    begun = False
    for _ in range(data.draw(st.integers(1, 25))):
        kind = data.draw(st.sampled_from(["write", "gap", "delete", "elect", "unclean", "steps", "steps"]))
        if kind == "write":
            model.write(data.draw(st.integers(1, 6)))
        elif kind == "gap":
            model.write(1, gap=data.draw(st.integers(1, 5)))
        elif kind == "delete" and begun:
            model.source.delete_to(data.draw(st.integers(model.source.start, model.source.end)))
        elif kind == "elect":
            model.elect()
        elif kind == "unclean" and model.has_epochs:
            # (Without epochs a source that lost records and wrote others is not told from one that did not.)
            lost, kept = data.draw(st.integers(0, 3)), max(model.source.start, model.copy.start) + 1
            model.elect(lost=min(lost, max(0, model.source.end - kept)))
        else:
            for _ in range(data.draw(st.integers(1, 8))):
                model.step()
            begun = True
    model.write(1)
    model.settle(500)
    assert not model.faults
    assert model.copy.rows == model.source.rows
    assert model.own_epoch >= (model.copy.rows[-1].epoch if model.copy.rows else 0)


def test_a_leader_epoch_that_is_made_up_is_a_fault() -> None:
    """Ours would be raised to it, and the next election would have none that fits into the protocol."""
    model = Model()
    model.write(1)
    model.settle()
    outputs = model.machine.led_by(1, 2**31 - 1, Ends(0, 1, 0))
    assert [type(each) for each in outputs] == [Fault]
    assert model.machine.state is State.FAULTED
    other = Model()
    other.write(1)
    other.settle()
    assert [type(each) for each in other.machine.appended(Ends(0, 1, 0), 2**31 - 1, 5)] == [Fault]


def test_records_that_cannot_be_appended_are_asked_for_less_and_less_often() -> None:
    model = Model()
    model.write(1)
    model.settle()
    machine, pauses = model.machine, []
    for _ in range(4):
        machine.asked(1, model.now_ms)
        machine.fetched(0, 5, 0, memoryview(b"damaged"), Ends(0, 1, 0), model.now_ms)
        machine.failed("the crc is wrong", model.now_ms)
        pauses.append(machine.resume_ms - model.now_ms)
        model.now_ms = machine.resume_ms
        model.todo += machine.tick(model.now_ms)
        while model.todo:
            model.step()
        assert machine.state is State.FETCHING
    assert pauses == [100, 200, 400, 800]
