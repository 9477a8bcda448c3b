"""Deadlines fall due when they say, however often they were moved."""

from hypothesis import given
from hypothesis import strategies as st
from kept import kept

from moldau.broker.coordinator.deadlines import Deadlines

MOVES = st.lists(
    st.tuples(st.sampled_from(["set", "cancel", "look"]), st.sampled_from("abcd"), st.integers(0, 50))
)


@given(MOVES)
def test_every_key_falls_due_at_its_last_deadline(moves: list[tuple[str, str, int]]) -> None:
    deadlines, model, now_ms = Deadlines(), dict[tuple[str, ...], int](), 0
    for kind, name, value in moves:
        key = (name, "", "")
        if kind == "set":
            deadlines.set(key, now_ms + value)
            model[key] = now_ms + value
        elif kind == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            now_ms += value
            due = [key for key, at_ms in sorted(model.items(), key=lambda row: row[1]) if at_ms <= now_ms]
            assert sorted(deadlines.pop_due(now_ms)) == sorted(due)
            for key in due:
                del model[key]
        assert len(deadlines) == len(model)
        earliest_ms = deadlines.earliest_ms()
        if model:
            assert earliest_ms is not None
            assert earliest_ms <= min(model.values())


def test_moving_later_adds_nothing_to_the_heap() -> None:
    deadlines = Deadlines()
    key = ("group", "session", "member")
    for at_ms in range(100, 10_000):
        deadlines.set(key, at_ms)
    assert kept(deadlines) <= 3, "its time, and one place in the heap"
    assert deadlines.pop_due(5000) == []
    assert deadlines.get(key) == 9999
    assert deadlines.pop_due(9999) == [key]
    assert deadlines.earliest_ms() is None
