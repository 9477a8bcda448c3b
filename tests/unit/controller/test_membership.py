"""Brokers that start, stop and crash: who leads and who is in sync afterwards, with several replicas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.controller.decision import Decision, decided
from moldau.broker.controller.in_sync import (
    NONE_ELIGIBLE,
    Rules,
    after_brokers,
    best_leader,
    with_in_sync,
    with_leader,
)
from moldau.broker.controller.membership import brokers_changed, review_eligible, take_seat
from moldau.broker.metadata.changes import (
    BrokerFenced,
    BrokerRegistered,
    ConfigsChanged,
    ControllerElected,
    LeadershipRenewed,
    PartitionsChanged,
    replay,
)
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, ResourceType, TopicState
from moldau.broker.metadata.levels import LEVELS
from moldau.broker.metadata.store import Registration

REPLICAS = (1, 2, 3)
TWO = Rules(min_isr=2)
OFF = Rules(NONE_ELIGIBLE, by_log_end=True)


def state(leader, isr, elr=(), leader_epoch=5, partition_epoch=7):
    return PartitionState(leader, leader_epoch, partition_epoch, REPLICAS, isr, elr)


def short(after):
    return after.leader, after.isr, after.elr


# One partition


@pytest.mark.parametrize(
    ("what", "before", "live", "restarted", "lost", "rules", "after"),
    [
        ("nothing happened", state(1, REPLICAS), {1, 2, 3}, (), (), TWO, (1, REPLICAS, ())),
        ("a follower went", state(1, REPLICAS), {1, 2}, (), (), TWO, (1, (1, 2), ())),
        ("so few that it stays eligible", state(1, (1, 2)), {1}, (), (), TWO, (1, (1,), (2,))),
        ("its leader went", state(1, REPLICAS), {2, 3}, (), (), TWO, (2, (2, 3), ())),
        ("the last one went, too", state(1, (1,), (2,)), {3}, (), (), TWO, (-1, (), (1, 2))),
        ("nobody who has all comes back", state(-1, (), (1, 2)), {3}, {3}, (), TWO, (-1, (), (1, 2))),
        ("an eligible one comes back", state(-1, (), (1, 2)), {2, 3}, {2}, (), TWO, (2, (2,), (1,))),
        ("one alone is enough here", state(-1, (), (1, 2)), {2}, {2}, (), Rules(1), (2, (2,), ())),
        ("it comes back without its tail", state(-1, (), (1, 2)), {2}, {2}, {2}, TWO, (-1, (), (1,))),
        ("a leader restarts cleanly", state(1, REPLICAS), {1, 2, 3}, {1}, (), TWO, (1, REPLICAS, ())),
        ("a leader lost its tail", state(1, REPLICAS), {1, 2, 3}, {1}, {1}, TWO, (2, (2, 3), ())),
        ("a leader lost its tail, one has all", state(1, (1, 3)), {1, 3}, {1}, {1}, TWO, (3, (3,), ())),
        ("only one that is away has all", state(1, (1,), (3,)), {1, 2}, {1}, {1}, TWO, (-1, (), (3,))),
        ("a leader lost its tail, and nobody has more", state(1, (1,)), {1}, {1}, {1}, TWO, (1, (1,), ())),
        ("all lost their tails", state(2, REPLICAS), {1, 2, 3}, {1, 2, 3}, {1, 2, 3}, TWO, (2, (2,), ())),
        ("a follower lost its tail", state(1, REPLICAS), {1, 2, 3}, {3}, {3}, TWO, (1, (1, 2), ())),
        ("rather lose records", state(1, (1,)), {2, 3}, (), (), Rules(1, unclean=True), (2, (2,), ())),
        ("rather wait", state(1, (1,)), {2, 3}, (), (), Rules(1), (-1, (), (1,))),
        ("off: who left is not eligible", state(1, (1, 2)), {1}, (), (), OFF, (1, (1,), ())),
        ("off: the last one went, and stays", state(1, (1,)), {2, 3}, (), (), OFF, (-1, (1,), ())),
        ("off: all went at once", state(1, (1, 2)), {3}, (), (), OFF, (-1, (1, 2), ())),
        ("off: another one comes back", state(-1, (1,)), {2, 3}, {2}, (), OFF, (-1, (1,), ())),
        ("off: the last one comes back", state(-1, (1,)), {1, 2}, {1}, (), OFF, (1, (1,), ())),
        ("off: without its tail it leads, too", state(-1, (1,)), {1}, {1}, {1}, OFF, (1, (1,), ())),
        ("off: but not if another has all", state(-1, (1, 2)), {1}, {1}, {1}, OFF, (-1, (2,), ())),
        ("off: a lost leader alone", state(1, (1,)), {1}, {1}, {1}, OFF, (1, (1,), ())),
        ("off: rather lose records", state(-1, (1,)), {2}, (), (), Rules(0, unclean=True), (2, (2,), ())),
        ("off: a list that was left behind", state(1, (1,), (2,)), {1, 2}, (), (), OFF, (1, (1,), ())),
        ("off: and nobody was in sync", state(-1, (), (2,)), {3}, (), (), OFF, (-1, (2,), ())),
        ("on again", state(-1, (1,)), {2}, (), (), TWO, (-1, (), (1,))),
    ],
)  # fmt: skip
def test_a_partition_follows_its_brokers(what, before, live, restarted, lost, rules, after):
    changed = after_brokers(before, live, restarted, lost, rules)
    assert short(changed) == after, what
    led_anew = changed.leader != before.leader or (before.leader in restarted and before.leader >= 0)
    assert changed.leader_epoch - before.leader_epoch == led_anew
    assert changed.partition_epoch - before.partition_epoch == (changed != before)
    if changed == before:
        assert changed is before
    again = after_brokers(changed, live, (), (), rules)
    assert again is changed, "decided twice, it changes nothing more"


def test_the_high_watermark_moved_on_without_them_so_nobody_stays_eligible():
    """Elected from the eligible ones, and enough alone: the other's records may not be all from now on."""
    assert with_leader(state(-1, (), (1, 2)), 1, 1).elr == ()
    assert with_leader(state(-1, (), (1, 2)), 1, 2).elr == (2,)
    grown = with_in_sync(state(1, (1,), (2, 3)), (1, 3), 2)
    assert (grown.isr, grown.elr) == ((1, 3), ())


def test_an_eligible_replica_leads_only_where_nobody_is_in_sync():
    assert best_leader(state(-1, (1,), (2,)), {2, 3}, unclean=False) == -1
    assert best_leader(state(-1, (), (2,)), {2, 3}, unclean=False) == 2


def test_more_in_sync_replicas_wanted_than_there_are():
    """min.insync.replicas above the replication factor: all are then enough to forget the eligible."""
    alone = PartitionState(1, 0, 0, (1,), (1,))
    assert after_brokers(alone, {1}, {1}, {1}, Rules(3)) == PartitionState(1, 1, 1, (1,), (1,))


# All of them


def registered(node, epoch, previous=-1):
    return Registration(node, {"P": ("host", node)}, None, previous, epoch)


def image(*partitions, brokers=((1, 10), (2, 20), (3, 30)), fenced=()):
    topic = TopicState("a", b"a" * 16, partitions or (PartitionState.fresh(REPLICAS),))
    states = {n: BrokerState(n, epoch, {"P": ("host", n)}, None, n in fenced) for n, epoch in brokers}
    return Image(5, brokers=states, topics={"a": topic}, topic_names={topic.topic_id: "a"})


ALL = {n: registered(n, n * 10) for n in REPLICAS}


def after(before, live, rules=TWO):
    changes = decided(brokers_changed(before, live, lambda topic: rules)).changes
    result = replay(before, before.version + 1, changes)
    assert decided(brokers_changed(result, live, lambda topic: rules)).changes == []
    return result, changes


def test_what_the_image_says_already_changes_nothing():
    assert after(image(), ALL)[1] == []


def test_a_broker_that_went_is_fenced_and_leads_no_more():
    result, changes = after(image(), {n: ALL[n] for n in (2, 3)})
    assert changes[0] == BrokerFenced(1, True)
    assert [type(change) for change in changes] == [BrokerFenced, PartitionsChanged]
    assert short(result.topics["a"].partitions[0]) == (2, (2, 3), ())
    assert result.brokers[1].fenced


def test_it_comes_back_after_a_clean_stop_or_without_its_tail():
    down, _ = after(image(PartitionState(1, 0, 0, (1, 2), (1,), (2,))), {3: ALL[3]})
    assert short(down.topics["a"].partitions[0]) == (-1, (), (1, 2))
    clean, changes = after(down, {3: ALL[3], 1: registered(1, 40, previous=10)})
    assert changes[0] == BrokerRegistered(1, 40, {"P": ("host", 1)}, None)
    assert short(clean.topics["a"].partitions[0]) == (1, (1,), (2,))
    for unclean in (registered(1, 40), registered(1, 40, previous=9)):
        result, _ = after(down, {3: ALL[3], 1: unclean})
        assert short(result.topics["a"].partitions[0]) == (-1, (), (2,))
        assert not result.brokers[1].fenced


@pytest.mark.parametrize("fenced", [(), (2,)])
def test_an_eligible_replica_that_comes_back_without_its_tail_is_not_eligible_any_more(fenced):
    """Though the leader and all that are in sync go on as they were: it would lead once they are gone."""
    before = image(state(1, (1,), (2,)), fenced=fenced)
    clean, _ = after(before, {**ALL, 2: registered(2, 40, previous=20)})
    assert short(clean.topics["a"].partitions[0]) == (1, (1,), (2,))
    result, _ = after(before, {**ALL, 2: registered(2, 40)})
    assert short(result.topics["a"].partitions[0]) == (1, (1,), ())


def test_a_restart_so_quick_that_nobody_saw_it_go():
    """The same set of brokers, but another epoch: what was not synced may be gone all the same."""
    result, _ = after(image(), {**ALL, 1: registered(1, 40)})
    assert short(result.topics["a"].partitions[0]) == (2, (2, 3), ())
    result, _ = after(image(), {**ALL, 1: registered(1, 40, previous=10)})
    assert result.topics["a"].partitions[0] == PartitionState(1, 1, 1, REPLICAS, REPLICAS)


def test_a_fenced_broker_that_is_registered_may_lead_again():
    result, changes = after(image(PartitionState(-1, 0, 0, (2,), (), (2,)), fenced=(2,)), ALL)
    assert changes[0] == BrokerFenced(2, False)
    assert short(result.topics["a"].partitions[0]) == (2, (2,), ())


def test_partitions_of_other_brokers_are_left_alone():
    others = PartitionState.fresh((2, 3))
    result, changes = after(image(others, PartitionState.fresh((3, 1))), {n: ALL[n] for n in (2, 3)})
    assert result.topics["a"].partitions[0] is others
    assert [index for index, _ in changes[1].partitions] == [1]


def test_a_new_controller_writes_down_what_happened_while_there_was_none():
    live = {2: ALL[2], 3: registered(3, 50)}
    changes = decided(take_seat(image(), 2, 8, live, lambda topic: TWO)).changes
    assert changes[0] == ControllerElected(2, 8)
    result = replay(image(), 6, changes)
    assert (result.controller_id, result.controller_epoch) == (2, 8)
    assert short(result.topics["a"].partitions[0]) == (2, (2,), (1,))


def test_the_first_broker_of_a_new_cluster():
    changes = decided(take_seat(Image(), 1, 1, {1: registered(1, 3)}, lambda topic: TWO)).changes
    assert changes == [ControllerElected(1, 1), BrokerRegistered(1, 3, {"P": ("host", 1)}, None)]


def test_a_single_brokers_restart_is_one_short_change():
    before = image(*[PartitionState.fresh((1,))] * 500, brokers=((1, 10),))
    result, changes = after(before, {1: registered(1, 11)})
    assert changes == [BrokerRegistered(1, 11, {"P": ("host", 1)}, None), LeadershipRenewed(1)]
    assert set(result.topics["a"].partitions) == {PartitionState(1, 1, 1, (1,), (1,))}


NODES = st.integers(1, 3)


@st.composite
def partition_states(draw):
    """States that the rules can lead to: who leads is in sync, nobody is both in sync and eligible."""
    replicas = tuple(draw(st.permutations(REPLICAS)))[: draw(NODES)]
    kinds = [draw(st.sampled_from(["in sync", "eligible", "neither"])) for _ in replicas]
    isr = tuple(node for node, kind in zip(replicas, kinds, strict=True) if kind == "in sync")
    elr = tuple(node for node, kind in zip(replicas, kinds, strict=True) if kind == "eligible")
    if not isr and not elr:
        elr = replicas[:1]
    leader = draw(st.sampled_from((*isr, -1)))
    return PartitionState(leader, draw(st.integers(0, 9)), draw(st.integers(0, 9)), replicas, isr, elr)


@given(
    st.lists(partition_states(), min_size=1, max_size=6),
    st.dictionaries(NODES, st.tuples(st.booleans(), st.booleans())),
    st.sets(NODES),
    st.builds(Rules, NODES, st.booleans()),
)
def test_each_partition_gets_what_its_rules_say_and_a_leader_only_of_those_who_have_all(
    partitions, now, fenced, rules
):
    """`now`: the registered brokers, with whether they restarted, and whether their stop was clean."""
    before = image(*partitions, fenced=fenced)
    live = {
        n: registered(n, n * 10 + restarted, n * 10 if clean else -1) for n, (restarted, clean) in now.items()
    }
    restarted = {n for n, (again, _) in now.items() if again}
    lost = {n for n in restarted if not now[n][1]}
    result, _ = after(before, live, rules)
    for old, new in zip(partitions, result.topics["a"].partitions, strict=True):
        assert new == after_brokers(old, live, restarted, lost, rules)
        assert new.leader == -1 or (new.leader in live and new.leader in new.isr)
        assert set(new.isr) <= set(live)
        assert not set(new.isr) & set(new.elr)
        assert new.isr or new.elr
        complete = {n for n in (*old.isr, *old.elr) if n not in lost}
        if complete and not rules.unclean:
            assert new.leader in (*complete, -1)
            assert set(new.elr) <= complete
        assert new.leader_epoch - old.leader_epoch in (0, 1)
        assert (new.leader_epoch > old.leader_epoch) == (
            new.leader != old.leader or (old.leader in restarted and old.leader != -1)
        )


@pytest.mark.parametrize(
    ("values", "min_isr", "elr"),
    [
        ({"min.insync.replicas": "1"}, 1, ()),
        ({"min.insync.replicas": "2"}, 2, (2,)),
        ({"retention.ms": "1"}, 1, (2,)),  # it was decided on when that one was set
    ],
)
def test_nobody_stays_eligible_when_fewer_in_sync_replicas_are_enough(values, min_isr, elr):
    """In the same entry: from then on the leader's high watermark moves on without them."""
    before = image(state(1, (1,), (2,)), state(1, (1,)))
    changed = Decision([ConfigsChanged(ResourceType.TOPIC, "a", values)], "answer")
    decision = decided(review_eligible(before, changed, lambda image, topic: Rules(min_isr)))
    assert decision.answer == "answer"
    after = replay(before, 6, decision.changes)
    assert after.topics["a"].partitions[0].elr == elr
    assert after.topics["a"].partitions[0].leader_epoch == 5
    assert after.topics["a"].partitions[1] is before.topics["a"].partitions[1]


def test_a_broker_that_does_not_read_the_level_is_not_let_in():
    """It had looked before the level was raised, and registered afterwards."""
    level_2 = image(fenced=(3,))._replace(level=2)
    older = {**ALL, 3: registered(3, 31)}
    changes = decided(brokers_changed(level_2, older, lambda topic: TWO)).changes
    assert not any(isinstance(each, BrokerRegistered | BrokerFenced) for each in changes)
    newer = {**ALL, 3: registered(3, 31)._replace(levels=LEVELS)}
    changes = decided(brokers_changed(level_2, newer, lambda topic: TWO)).changes
    assert [each.node_id for each in changes if isinstance(each, BrokerRegistered)] == [3]
