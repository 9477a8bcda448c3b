"""A broker that stops in order hands over first, and enters no in-sync set again."""

import asyncio

import pytest
from controller_cluster import run
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.controller.decision import decided
from moldau.broker.controller.in_sync import Rules
from moldau.broker.controller.membership import brokers_changed
from moldau.broker.controller.partitions import AlterPartition
from moldau.broker.controller.shutdown import hand_over
from moldau.broker.metadata.changes import BrokerShuttingDown, replay
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, TopicState
from moldau.broker.metadata.store import Registration
from moldau.common.protocol.errors import ErrorCode

NODES = (1, 2, 3)
TOPIC_ID = b"a" * 16
TWO = Rules(2)


def image_of(*partitions, level=2, fenced=(), leaving=()):
    brokers = {n: BrokerState(n, n, {}, None, n in fenced, n in leaving) for n in NODES}
    topics = {"a": TopicState("a", TOPIC_ID, partitions)}
    return Image(version=5, level=level, brokers=brokers, topics=topics, topic_names={TOPIC_ID: "a"})


def after(image, node_id=1, rules=TWO):
    decision = decided(hand_over(image, node_id, lambda topic: rules))
    for number, changes in enumerate((*decision.earlier, decision.changes), start=1):
        image = replay(image, image.version + number, changes)
    return image, decision


@pytest.mark.parametrize(
    ("what", "before", "fenced", "now", "left"),
    [
        ("another in-sync replica leads", (1, NODES, ()), (), (2, (2, 3), ()), 0),
        ("it need not be the next", (1, (1, 3), ()), (), (3, (3,), (1,)), 0),
        ("it follows nobody any more", (2, (2, 1, 3), ()), (), (2, (2, 3), ()), 0),
        ("it has all, but nobody waits for it", (2, (2, 1), ()), (), (2, (2,), (1,)), 0),
        ("nobody else is in sync yet", (1, (1,), ()), (), (1, (1,), ()), 1),
        ("nobody else is in sync yet, only eligible", (1, (1,), (2,)), (), (1, (1,), (2,)), 1),
        ("nobody else is there", (1, (1,), (2,)), (2, 3), (1, (1,), (2,)), 0),
        ("no business of its own", (3, (3,), (1,)), (), (3, (3,), (1,)), 0),
    ],
)
def test_a_partition_is_handed_over(what, before, fenced, now, left):
    state = PartitionState(before[0], 4, 7, NODES, *before[1:])
    image, decision = after(image_of(state, fenced=fenced))
    changed = image.topics["a"].partitions[0]
    assert (changed.leader, changed.isr, changed.elr) == now, what
    assert decision.answer.left == left
    assert changed.leader_epoch - 4 == (now[0] != before[0])
    assert changed.partition_epoch - 7 == (now != before)
    assert image.brokers[1].shutting_down


def test_one_that_shuts_down_itself_takes_over_nothing():
    image, _ = after(image_of(PartitionState.fresh((1, 2, 3)), leaving=(2,)))
    assert image.topics["a"].partitions[0].leader == 3
    image, decision = after(image_of(PartitionState.fresh((1, 2)), leaving=(2,)))
    assert (image.topics["a"].partitions[0].leader, decision.answer.left) == (1, 0)


def test_a_cluster_of_an_older_level_is_told_of_leaders_only():
    image, _ = after(image_of(PartitionState.fresh((1, 2)), level=1))
    assert image.topics["a"].partitions[0].leader == 2
    assert not image.brokers[1].shutting_down


def test_the_first_entry_says_that_it_shuts_down_and_the_others_are_small():
    partitions = [PartitionState.fresh((1, 2))] * 3_500
    decision = after(image_of(*partitions))[1]
    entries = [*decision.earlier, decision.changes]
    assert entries[0] == [BrokerShuttingDown(1)]
    assert [sum(len(each.partitions) for each in entry) for entry in entries[1:]] == [1000, 1000, 1000, 500]


@st.composite
def states(draw, min_isr):
    replicas = tuple(draw(st.permutations(NODES)))[: draw(st.integers(1, 3))]
    isr = tuple(draw(st.sets(st.sampled_from(replicas), min_size=1)))
    elr = tuple(n for n in replicas if n not in isr and draw(st.booleans()))
    if len(isr) >= min(min_isr, len(replicas)):
        elr = ()
    return PartitionState(draw(st.sampled_from(isr)), 4, 7, replicas, isr, elr)


@given(st.data(), st.sets(st.sampled_from((2, 3))), st.builds(Rules, st.integers(1, 3)))
def test_whoever_leads_then_had_every_committed_record(data, leaving, rules):
    partitions = data.draw(st.lists(states(rules.min_isr), min_size=1, max_size=4))
    image, _ = after(image_of(*partitions, leaving=leaving), rules=rules)
    for old, new in zip(partitions, image.topics["a"].partitions, strict=True):
        assert new.leader in old.isr, "a controlled shutdown elects from the in-sync set only"
        assert new.leader in new.isr
        assert set(new.isr) <= set(old.isr)
        assert new.leader == old.leader or (old.leader == 1 and new.leader not in leaving)
        if new.leader != 1:
            assert 1 not in new.isr
        if 1 in old.isr and 1 not in new.isr and len(new.isr) < min(rules.min_isr, len(new.replicas)):
            assert 1 in new.elr, "it has them all, too"
    again, second = after(image, rules=rules)
    assert (again.topics, *second.changes, *second.earlier) == (image.topics,)
    live = {n: Registration(n, {}, None, broker_epoch=n) for n in NODES}
    assert not decided(brokers_changed(image, live, lambda topic: rules)).changes, "the controller agrees"


# Whole controllers on one store


def test_it_hands_over_and_is_elected_no_more():
    async def scenario(cluster):
        await cluster.topic("a", (1, 2, 3))
        await cluster.topic("b", (2, 1))
        leaving = cluster.brokers[1]
        await leaving.this_broker.shut_down()
        await cluster.settle()
        assert cluster.partition("a") == (2, (2, 3), ())
        assert cluster.partition("b") == (2, (2,), (1,))
        state = cluster.image.topics["a"].partitions[0]
        asked = AlterPartition("a", 0, state.leader_epoch, state.partition_epoch, (2, 3, 1))
        leader = cluster.brokers[2]
        ((_, outcome, _),) = await leader.alter_partitions(2, leader.this_broker.broker_epoch, [asked])
        assert outcome.error_code is ErrorCode.INELIGIBLE_REPLICA
        cluster.ensemble.expire(cluster.stores[2])
        await cluster.settle()
        assert cluster.partition("a")[0] in (2, 3)
        del cluster.brokers[1]
        await leaving.this_broker.close()
        await cluster.settle()
        assert cluster.image.brokers[1].fenced
        await cluster.start(1)
        assert cluster.image.brokers[1].active

    run(scenario)


def test_it_waits_for_a_replica_that_catches_up():
    async def scenario(cluster):
        await cluster.topic("a", (1, 2))
        state = cluster.image.topics["a"].partitions[0]
        broker = cluster.brokers[1]
        alone = AlterPartition("a", 0, state.leader_epoch, state.partition_epoch, (1,))
        await broker.alter_partitions(1, broker.this_broker.broker_epoch, [alone])
        leaving = asyncio.ensure_future(broker.this_broker.shut_down())
        await cluster.wait_ms(1_000)
        assert not leaving.done()
        state = cluster.image.topics["a"].partitions[0]
        assert state.leader == 1
        both = AlterPartition("a", 0, state.leader_epoch, state.partition_epoch, (1, 2))
        await broker.alter_partitions(1, broker.this_broker.broker_epoch, [both])
        await cluster.settle()
        assert leaving.done()
        assert cluster.partition("a") == (2, (2,), (1,))

    run(scenario)


@pytest.mark.parametrize("store_is_away", [False, True])
def test_it_does_not_wait_for_ever_and_says_so(caplog, store_is_away):
    async def scenario(cluster):
        await cluster.topic("a", (1, 2))
        state = cluster.image.topics["a"].partitions[0]
        broker = cluster.brokers[1]
        alone = AlterPartition("a", 0, state.leader_epoch, state.partition_epoch, (1,))
        await broker.alter_partitions(1, broker.this_broker.broker_epoch, [alone])
        if store_is_away:
            cluster.ensemble.disconnect(cluster.stores[1])
        leaving = asyncio.ensure_future(broker.this_broker.shut_down())
        await cluster.settle()
        await cluster.wait_ms(14_999)
        assert not leaving.done()
        await cluster.wait_ms(1)
        assert leaving.done()
        told = [record.getMessage() for record in caplog.records if "without" in record.getMessage()]
        cause = "does not answer" if store_is_away else "1 partitions, such as a-0, have no other replica"
        assert len(told) == 1
        assert cause in told[0]

    run(scenario)


def test_all_stop_at_once():
    async def scenario(cluster):
        await cluster.topic("a", (1, 2, 3))
        await asyncio.gather(*(broker.this_broker.shut_down() for broker in cluster.brokers.values()))
        await cluster.settle()
        assert all(broker.shutting_down for broker in cluster.image.brokers.values())
        assert cluster.partition("a")[0] == 3, "the last one leads to the end"

    run(scenario)


def test_a_broker_alone_writes_nothing():
    async def scenario(cluster):
        version = cluster.image.version
        await cluster.brokers[1].this_broker.shut_down()
        assert cluster.image.version == version

    run(scenario, count=1)
