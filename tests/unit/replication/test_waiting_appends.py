"""Appends that wait, against a model that looks at all of them each time."""

import weakref
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kept import kept

from moldau.broker.replication.waiting_appends import WaitingAppends

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.sampled_from((None, 0, 100, 250))),
        st.tuples(st.just("reached"), st.integers(0, 4), st.none()),
        st.tuples(st.just("lost"), st.integers(0, 4), st.none()),
        st.tuples(st.just("expire"), st.integers(0, 200), st.none()),
        st.tuples(st.just("clear"), st.none(), st.none()),
    ),
    max_size=60,
)


class Model:
    """The same by rules alone: [end offset, name, timeout, when it was first seen to wait]."""

    def __init__(self) -> None:
        self.waiting: list[list[Any]] = []

    def take(self, chosen: list[list[Any]]) -> list[Any]:
        self.waiting = [each for each in self.waiting if each not in chosen]
        return [each[1] for each in chosen]

    def expire(self, now_ms: float) -> list[Any]:
        late = [each for each in self.waiting if each[3] is not None and each[3] + each[2] <= now_ms]
        late.sort(key=lambda each: each[3] + each[2])
        taken = self.take(late)
        for each in self.waiting:
            if each[2] is not None and each[3] is None:
                each[3] = now_ms
        return taken


@settings(max_examples=400)
@given(steps=STEPS, many=st.sampled_from((1, 1, 100)))
def test_each_is_taken_once_and_when_it_should_be(steps: list[Any], many: int) -> None:
    queue, model = WaitingAppends(), Model()
    end_offset = reached = 0
    now_ms, names = 0.0, 0
    for kind, number, timeout_ms in steps:
        if kind == "add":
            end_offset += 1 + number
            for _ in range(many):  # as many as have the bookkeeping tidied up
                names += 1
                queue.add(end_offset, names, timeout_ms)
                model.waiting.append([end_offset, names, timeout_ms, None])
        elif kind == "reached":
            reached = min(end_offset, reached + number)
            expected = model.take([each for each in model.waiting if each[0] <= reached])
            assert queue.reached(reached) == expected
        elif kind == "lost":
            end_offset = max(reached, end_offset - number)
            expected = model.take([each for each in model.waiting if each[0] > end_offset])
            assert queue.lost(end_offset) == expected
        elif kind == "expire":
            now_ms += number
            assert sorted(queue.expire(now_ms)) == sorted(model.expire(now_ms))
        else:
            assert queue.clear() == model.take(model.waiting)
        assert len(queue) == len(model.waiting)
        if kind == "expire":
            assert len(queue) or not kept(queue)
            assert kept(queue) <= 10 * len(queue) + 200


def test_a_repeated_batch_is_answered_with_the_last_of_those_before_which_it_lies() -> None:
    queue = WaitingAppends()
    queue.add(10, "a", None)
    queue.add(20, "b", None)
    queue.add(10, "a again", None)
    assert queue.reached(10) == ["a"]
    assert queue.reached(20) == ["b", "a again"]


def test_who_was_answered_is_not_kept() -> None:
    """The last look at the time, after which nothing waits, drops what the looks before have noted."""

    class Answered: ...

    queue = WaitingAppends()
    waiters = [Answered(), Answered(), Answered()]
    told = [weakref.ref(each) for each in waiters]
    for offset, timeout_ms in ((1, 30_000), (2, 100), (3, None)):
        queue.add(offset, waiters.pop(), timeout_ms)
    queue.expire(0)
    queue.expire(200)
    queue.reached(3)
    queue.expire(300)
    assert [each() for each in told] == [None] * 3
