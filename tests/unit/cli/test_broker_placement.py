"""Where the replicas of a broker go when it is emptied."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.tools.commands.brokers.placement import without
from moldau.tools.shared.errors import CommandError


def test_only_its_own_replicas_move_and_in_its_place() -> None:
    replicas = {("t", 0): [1, 2, 3], ("t", 1): [2, 3, 4], ("t", 2): [3, 1, 2]}
    racks = dict.fromkeys((1, 2, 3, 4))
    assert without(1, replicas, racks) == {("t", 0): [4, 2, 3], ("t", 2): [3, 4, 2]}


def test_a_rack_that_the_partition_has_not_comes_first() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "b", 5: "a"}
    crowded = {("u", index): [5] for index in range(9)}  # although the broker there has the most to do
    found = without(1, {("t", 0): [1, 2, 3], **crowded}, racks)
    assert found == {("t", 0): [2, 5, 3]}  # 5 is preferred nine times, 2 never


def test_too_few_brokers_is_said_with_the_partition() -> None:
    with pytest.raises(CommandError, match=r"orders-3 has 3 replicas and, without broker 2, only 2 brokers"):
        without(2, {("orders", 3): [1, 2, 3]}, dict.fromkeys((1, 2, 3)))


def test_a_dead_broker_is_drained_like_a_living_one() -> None:
    assert without(9, {("t", 0): [9, 1]}, {1: None, 2: None}) == {("t", 0): [2, 1]}


@given(st.integers(1, 60), st.integers(4, 8), st.integers(0, 2**32))
def test_replicas_and_preferred_leaders_spread(partitions: int, brokers: int, seed: int) -> None:
    ids = list(range(1, brokers + 1))
    replicas = {
        ("t", index): [ids[(index * (1 + seed % 3) + offset) % brokers] for offset in range(3)]
        for index in range(partitions)
    }
    found = without(1, replicas, dict.fromkeys(ids))
    after = {**replicas, **found}
    assert all(1 not in each and len(set(each)) == 3 for each in after.values())
    before = Counter(broker for each in replicas.values() for broker in each)
    gained = Counter(broker for each in after.values() for broker in each)
    assert sum(gained.values()) == sum(before.values())
    mean = 3 * partitions / (brokers - 1)
    assert max(gained.values()) <= 1.25 * max(*before.values(), mean) + 1
    leaders_before = Counter(each[0] for each in replicas.values())
    leaders = Counter(each[0] for each in after.values())
    assert max(leaders.values()) <= max(*leaders_before.values(), partitions / (brokers - 1)) + 2
