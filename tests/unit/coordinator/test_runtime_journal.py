"""The journal brings back what was, whatever was done since."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.journal import Journal

KEYS = st.sampled_from("abc")
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers()),
        st.tuples(st.just("pop"), KEYS, st.just(0)),
        st.tuples(st.just("clear"), KEYS, st.just(0)),
        st.tuples(st.just("default"), KEYS, st.integers()),
        st.tuples(st.just("assign"), KEYS, st.integers()),
        st.tuples(st.just("commit"), KEYS, st.just(0)),
    )
)


class Holder:
    number = 0


def change(journal: Journal, data: dict[str, int], holder: Holder, step: tuple[str, str, int]) -> None:
    kind, key, value = step
    match kind:
        case "set":
            data[key] = value
        case "pop":
            data.pop(key, None)
        case "clear":
            data.clear()
        case "default":
            data.setdefault(key, value)
        case "assign":
            journal.assign(holder, "number", value)


@given(before=CHANGES, after=CHANGES)
def test_rolling_back_restores_the_marked_moment(before: list[Any], after: list[Any]) -> None:
    journal, holder = Journal(), Holder()
    data = journal.dict()
    for step in before:
        change(journal, data, holder, step)
        if step[0] == "commit":
            journal.commit(journal.mark())
    mark, was, number = journal.mark(), dict(data), holder.number
    for step in after:
        change(journal, data, holder, step)
    journal.roll_back(mark)
    assert dict(data) == was
    assert holder.number == number
    journal.roll_back(mark)
    assert dict(data) == was


def test_what_is_committed_stays() -> None:
    journal = Journal()
    data = journal.dict()
    data["a"] = 1
    middle = journal.mark()
    data["a"] = 2
    journal.commit(middle)
    data["b"] = 3
    journal.roll_back(middle)
    assert data == {"a": 1}


def test_other_changes_say_how_they_are_undone() -> None:
    journal = Journal()
    undone: list[str] = []
    mark = journal.mark()
    journal.note(lambda: undone.append("first"))
    journal.note(lambda: undone.append("second"))
    journal.roll_back(mark)
    assert undone == ["second", "first"]


def test_nothing_is_noted_while_loading() -> None:
    journal = Journal()
    journal.recording = False
    data = journal.dict()
    data.update({"a": 1})
    journal.roll_back(0)
    assert data == {"a": 1}
    assert journal.mark() == 0


def test_a_missing_key_is_an_error_as_in_any_dict() -> None:
    data = Journal().dict()
    with pytest.raises(KeyError):
        del data["a"]
    assert data.pop("a", 5) == 5
