"""Which operations are committed together: those that do not depend on each other, in their order."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.services.registry.topic.rounds import OPERATIONS_MAX, Decision, Operation, next_round

KEYS = st.one_of(st.none(), st.frozensets(st.sampled_from("abc"), min_size=1, max_size=2))


def operation(keys: frozenset[str] | None) -> Operation:
    return Operation(lambda: Decision([], None), keys, 0.0)


def test_operations_on_different_subjects_go_together() -> None:
    waiting = [operation(frozenset(name)) for name in "abca"]
    assert next_round(waiting) == waiting[:3]


def test_an_operation_without_keys_goes_alone() -> None:
    first, alone, last = operation(frozenset("a")), operation(None), operation(frozenset("b"))
    assert next_round([first, alone, last]) == [first]
    assert next_round([alone, last]) == [alone]


def test_a_round_has_a_limit() -> None:
    waiting = [operation(frozenset((str(number),))) for number in range(OPERATIONS_MAX + 1)]
    assert len(next_round(waiting)) == OPERATIONS_MAX


@given(st.lists(KEYS, max_size=20))
def test_all_are_done_each_once_and_in_order_where_it_matters(keys: list[frozenset[str] | None]) -> None:
    waiting = [operation(each) for each in keys]
    done: list[Operation] = []
    left = list(waiting)
    while left:
        chosen = next_round(left)
        assert chosen
        for index, one in enumerate(chosen):
            assert one.keys is not None or len(chosen) == 1
            assert all(one.keys.isdisjoint(other.keys or ()) for other in chosen[index + 1 :] if one.keys)
        done += chosen
        left = [each for each in left if each not in chosen]
    assert sorted(map(id, done)) == sorted(map(id, waiting))
    for earlier, one in enumerate(waiting):
        for other in waiting[earlier + 1 :]:
            if one.keys is None or other.keys is None or not one.keys.isdisjoint(other.keys):
                assert done.index(one) < done.index(other)
