"""Where copies go: evenly, all of them, and few of them anew."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from moldau.services.console.changes.spreading import spread


@st.composite
def topics(draw: st.DrawFn) -> tuple[dict[int, tuple[int, ...]], list[int], int]:
    brokers = list(range(draw(st.integers(1, 6))))
    copies_now = draw(st.integers(1, len(brokers)))
    now = {
        index: tuple(draw(st.permutations(brokers))[:copies_now]) for index in range(draw(st.integers(1, 12)))
    }
    named = draw(st.lists(st.sampled_from([*brokers, 7, 8]), unique=True, min_size=1))
    return now, named, draw(st.integers(1, len(named)))


@given(topics())
def test_every_partition_has_its_copies_and_no_broker_too_many(
    asked: tuple[dict[int, tuple[int, ...]], list[int], int],
) -> None:
    now, named, copies = asked
    then = spread(now, named, copies)
    assert then.keys() == now.keys()
    load: Counter[int] = Counter()
    for replicas in then.values():
        assert len(replicas) == len(set(replicas)) == copies
        assert set(replicas) <= set(named)
        load.update(replicas)
    counts = [load[each] for each in named]
    assert max(counts) - min(counts) <= 1


@given(topics())
def test_what_lies_evenly_stays(asked: tuple[dict[int, tuple[int, ...]], list[int], int]) -> None:
    now, named, copies = asked
    then = spread(now, named, copies)
    assert spread(then, named, copies) == then


def test_a_new_broker_gets_its_share_and_leads_some() -> None:
    now = dict.fromkeys(range(6), (1, 2))
    then = spread(now, [1, 2, 3], 2)
    load = Counter(each for replicas in then.values() for each in replicas)
    assert load == {1: 4, 2: 4, 3: 4}
    assert set(Counter(replicas[0] for replicas in then.values())) == {1, 2, 3}
    assert spread({0: (1,)}, [1, 2], 2) == {0: (1, 2)}
    assert spread({0: (1, 2, 3)}, [1, 2, 3], 2) == {0: (1, 2)}
