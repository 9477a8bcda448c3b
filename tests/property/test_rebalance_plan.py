"""Plans that even the load of brokers, and plans for other brokers or another replication factor."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.tools.commands.brokers.rebalance_plan import moved_bytes, rebalance
from moldau.tools.commands.topics.reassign_plan import spread

BROKERS = st.integers(2, 7)


@st.composite
def clusters(draw, racks=True):
    """Replicas by partition, sizes, racks by broker; some replicas may lie on brokers that are away."""
    count = draw(BROKERS)
    brokers = list(range(1, count + 1))
    names = draw(st.sampled_from([(None,), ("a", "b"), ("a", "b", "c")])) if racks else (None,)
    in_racks = {broker: names[broker % len(names)] for broker in brokers}
    away = draw(st.sampled_from([[], [99]]))
    replicas = {}
    for index in range(draw(st.integers(0, 25))):
        nodes = draw(st.lists(st.sampled_from(brokers + away), min_size=1, max_size=3, unique=True))
        replicas["t", index] = tuple(nodes)
    sizes = {place: draw(st.sampled_from([0, 1, 10, 100, 1_000, 5_000])) for place in replicas}
    return replicas, sizes, in_racks


def counts_of(replicas, racks):
    counts = Counter(dict.fromkeys(racks, 0))
    counts.update(broker for nodes in replicas.values() for broker in nodes if broker in racks)
    return counts


def leaders_of(replicas, racks):
    counts = Counter(dict.fromkeys(racks, 0))
    counts.update(nodes[0] for nodes in replicas.values() if nodes[0] in racks)
    return counts


def bytes_of(replicas, sizes, racks):
    held = dict.fromkeys(racks, 0)
    for place, nodes in replicas.items():
        for node in nodes:
            if node in held:
                held[node] += sizes[place]
    return held


def range_of(values):
    return max(values) - min(values)


@settings(max_examples=250, deadline=None)
@given(clusters())
def test_a_plan_is_legal_and_evens(cluster):
    replicas, sizes, racks = cluster
    targets = rebalance(replicas, sizes, racks)
    after = {**replicas, **{place: tuple(nodes) for place, nodes in targets.items()}}
    for place, nodes in targets.items():
        before = replicas[place]
        assert tuple(nodes) != before
        assert len(nodes) == len(set(nodes)) == len(before)
        assert all(node in racks or node in before for node in nodes)
        assert set(before) - set(racks) <= set(nodes), "what is away stays where it is"
        assert len({racks.get(node) for node in nodes}) >= len({racks.get(node) for node in before})
    counts, counts_before = counts_of(after, racks), counts_of(replicas, racks)
    assert range_of(counts.values()) <= max(1, range_of(counts_before.values()))
    preferred = leaders_of(after, racks)
    for giver in racks:
        for taker in racks:
            shared = [p for p, nodes in after.items() if nodes[0] == giver and taker in nodes]
            assert not shared or preferred[giver] - preferred[taker] <= 1
    assert rebalance(replicas, sizes, racks) == targets, "the same every time"


@settings(max_examples=250, deadline=None)
@given(clusters(racks=False))
def test_without_racks_counts_end_up_even_and_no_more_replicas_move_than_must(cluster):
    replicas, _, racks = cluster
    sizes = dict.fromkeys(replicas, 1)
    targets = rebalance(replicas, sizes, racks)
    after = {**replicas, **targets}
    before, counts = counts_of(replicas, racks), counts_of(after, racks)
    assert range_of(counts.values()) <= 1
    total, count = sum(before.values()), len(racks)
    low, rest = divmod(total, count)
    must_move = sum(
        max(0, have - low - (1 if place < rest else 0))
        for place, have in enumerate(sorted(before.values(), reverse=True))
    )
    assert moved_bytes(replicas, sizes, targets) == must_move
    assert rebalance(after, sizes, racks) == {}, "nothing is left to do"


def test_a_new_broker_gets_its_share_of_everything():
    replicas = {("t", index): (1 + index % 2, 2 - index % 2) for index in range(30)}
    sizes = {place: 1_000 + 100 * (place[1] % 7) for place in replicas}
    racks = dict.fromkeys((1, 2, 3))
    targets = rebalance(replicas, sizes, racks)
    after = {**replicas, **targets}
    assert set(counts_of(after, racks).values()) == {20}
    assert set(leaders_of(after, racks).values()) == {10}
    held = bytes_of(after, sizes, racks)
    mean = sum(held.values()) / 3
    assert all(abs(each - mean) <= 0.1 * mean for each in held.values())
    assert moved_bytes(replicas, sizes, targets) <= 1.2 * mean, "hardly more than the new broker has now"


def test_large_partitions_are_taken_apart():
    replicas = {("t", index): (1 if index < 4 else 2,) for index in range(8)}
    sizes = {place: 10_000 if place[1] < 4 else 10 for place in replicas}
    after = {**replicas, **rebalance(replicas, sizes, {1: None, 2: None})}
    assert bytes_of(after, sizes, (1, 2)) == {1: 20_020, 2: 20_020}


def test_leaders_are_evened_along_a_chain_without_copying():
    ring = [(1, 2), (2, 3), (4, 3), (1, 4)]  # 1 leads six and 3 none, and they share no partition
    replicas = {("t", index): ring[index % 4] for index in range(12)}
    sizes = dict.fromkeys(replicas, 1)
    targets = rebalance(replicas, sizes, dict.fromkeys((1, 2, 3, 4)))
    assert moved_bytes(replicas, sizes, targets) == 0
    assert set(leaders_of({**replicas, **targets}, (1, 2, 3, 4)).values()) == {3}


@settings(max_examples=150, deadline=None)
@given(clusters(), st.integers(1, 3))
def test_another_replication_factor_keeps_what_may_stay(cluster, factor):
    replicas, _, racks = cluster
    factor = min(factor, len(racks))
    targets = spread(replicas, list(replicas), racks, factor)
    for place, before in replicas.items():
        nodes = targets.get(place, list(before))
        assert len(nodes) == len(set(nodes)) == factor
        assert set(nodes) <= set(racks)
        staying = [node for node in before if node in racks]
        assert len(set(nodes) & set(before)) == min(factor, len(staying))
        if before[0] in racks:
            assert nodes[0] == before[0], "the leader stays"
        wanted = len({racks[node] for node in staying}) if len(staying) <= factor else 1
        assert len({racks[node] for node in nodes}) >= min(factor, wanted)
