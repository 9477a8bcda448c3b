"""Replicas that lost records or their log leave the in-sync set; no empty log leads while another has all."""

import asyncio

import pytest
from controller_cluster import run
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.controller.decision import decided
from moldau.broker.controller.election import ElectionType
from moldau.broker.controller.in_sync import Rules
from moldau.broker.controller.membership import brokers_changed
from moldau.broker.controller.partitions import AlterPartition
from moldau.broker.controller.replica_losses import replicas_lost
from moldau.broker.metadata.changes import ReplicasOffline, replay
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, TopicState
from moldau.broker.metadata.levels import LEVELS
from moldau.broker.metadata.store import Registration
from moldau.common.protocol.errors import ErrorCode

NODES = (1, 2, 3)
TOPIC_ID = b"a" * 16
TWO = Rules(2)


def image_of(*partitions, level=2, fenced=(), offline=()):
    brokers = {n: BrokerState(n, n, {}, None, n in fenced) for n in NODES}
    if offline:
        brokers[1] = brokers[1]._replace(offline={TOPIC_ID: tuple(offline)})
    topics = {"a": TopicState("a", TOPIC_ID, partitions)}
    return Image(version=5, level=level, brokers=brokers, topics=topics, topic_names={TOPIC_ID: "a"})


def after(image, lost=(), offline=(), *, complete=True, rules=TWO):
    """What follows when broker 1 has lost these partitions."""
    decision = decided(
        replicas_lost(
            image,
            1,
            [("a", index) for index in lost],
            [("a", index) for index in offline],
            lambda topic: rules,
            complete=complete,
        )
    )
    for changes in (*decision.earlier, decision.changes):
        image = replay(image, image.version + 1, changes)
    return image


def short(state):
    return state.leader, state.isr, state.elr


@pytest.mark.parametrize(
    ("what", "before", "fenced", "lost", "offline"),
    [
        ("it follows", (2, (1, 2, 3), ()), (), (2, (2, 3), ()), (2, (2, 3), ())),
        ("it leads", (1, (1, 2), ()), (), (2, (2,), ()), (2, (2,), ())),
        ("it is eligible", (2, (2,), (1,)), (), (2, (2,), ()), (2, (2,), ())),
        ("it has no part in it", (2, (2, 3), ()), (), (2, (2, 3), ()), (2, (2, 3), ())),
        ("another is eligible", (1, (1,), (3,)), (), (3, (3,), ()), (3, (3,), ())),
        ("it is the last", (1, (1,), ()), (), (1, (1,), ()), (-1, (), (1,))),
        ("it was the last, and is fenced", (-1, (), (1,)), (1,), (-1, (), (1,)), (-1, (), (1,))),
        ("others have all, and are away", (-1, (), (1, 2)), (1, 2), (-1, (), (2,)), (-1, (), (2,))),
    ],
)
def test_what_follows_for_a_partition(what, before, fenced, lost, offline):
    state = PartitionState(before[0], 4, 7, NODES, *before[1:])
    image = image_of(state, fenced=fenced)
    now = after(image, lost=(0,)).topics["a"].partitions[0]
    assert short(now) == lost, what
    assert now.leader_epoch - 4 == (now.leader != before[0] or (1 == now.leader == before[0])), what
    image = after(image, offline=(0,))
    assert short(image.topics["a"].partitions[0]) == offline, what
    assert image.brokers[1].offline == {TOPIC_ID: (0,)}


def test_a_partition_without_another_replica_is_left_alone():
    image = image_of(PartitionState.fresh((1,)))
    assert after(image, lost=(0,), offline=(0,)).topics is image.topics


def test_what_is_offline_is_remembered_until_the_broker_starts_with_it():
    image = image_of(*[PartitionState.fresh((1, 2))] * 3)
    image = after(image, offline=(1,), complete=False)
    image = after(image, offline=(2,), complete=False)
    assert image.brokers[1].offline == {TOPIC_ID: (1, 2)}
    registered = Registration(1, {}, None, -1, 9, LEVELS)
    live = {1: registered, **{n: Registration(n, {}, None, broker_epoch=n) for n in (2, 3)}}
    image = replay(image, 20, decided(brokers_changed(image, live, lambda topic: TWO)).changes)
    assert image.brokers[1].broker_epoch == 9
    assert image.brokers[1].offline == {TOPIC_ID: (1, 2)}, "its registration does not bring the disk back"
    assert after(image, lost=(1,), offline=(2,)).brokers[1].offline == {TOPIC_ID: (2,)}


def test_a_cluster_of_an_older_level_is_told_of_leaders_only():
    image = after(image_of(PartitionState.fresh((1, 2)), level=1), offline=(0,))
    assert short(image.topics["a"].partitions[0]) == (2, (2,), ())
    assert not image.brokers[1].offline


def test_it_is_said_before_anything_else():
    image = image_of(*[PartitionState.fresh((1, 2))] * 2_500)
    every = [("a", index) for index in range(2_500)]
    decision = decided(replicas_lost(image, 1, (), every, lambda topic: TWO, complete=False))
    entries = [*decision.earlier, decision.changes]
    assert isinstance(entries[0][0], ReplicasOffline)
    assert [sum(len(each.partitions) for each in entry) for entry in entries[1:]] == [1000, 1000, 500]


@given(st.data())
def test_an_offline_replica_leads_nothing_whatever_happens_to_the_brokers(data):
    partitions = []
    for _ in range(3):
        isr = tuple(data.draw(st.sets(st.sampled_from(NODES), min_size=1)))
        elr = tuple(n for n in NODES if n not in isr and len(isr) < 2 and data.draw(st.booleans()))
        partitions.append(PartitionState(data.draw(st.sampled_from(isr)), 4, 7, NODES, isr, elr))
    image = after(image_of(*partitions), offline=(0, 1))
    epoch = 10
    for _ in range(4):
        live = {}
        for node in NODES:
            if data.draw(st.booleans()):
                epoch += 1
                held = image.brokers[node].broker_epoch
                previous = data.draw(st.sampled_from((held, -1)))
                again = data.draw(st.booleans()) or image.brokers[node].fenced
                live[node] = Registration(node, {}, None, previous, epoch if again else held, LEVELS)
        decision = decided(brokers_changed(image, live, lambda topic: Rules(2, unclean=False)))
        for changes in (*decision.earlier, decision.changes):
            image = replay(image, image.version + 1, changes)
        for state in image.topics["a"].partitions[:2]:
            assert state.leader != 1
            assert 1 not in state.isr
            assert state.isr or state.elr


# Whole controllers on one store


def test_a_disk_fails_while_the_broker_runs():
    async def scenario(cluster):
        await cluster.topic("a", (1, 2, 3))
        await cluster.topic("b", (2, 1))
        await cluster.topic("c", (3, 1))
        cluster.brokers[1].this_broker.replicas_offline([("a", 0), ("b", 0)])
        await cluster.settle()
        assert cluster.partition("a") == (2, (2, 3), ())
        assert cluster.partition("b") == (2, (2,), ())
        assert cluster.partition("c") == (3, (3, 1), ())
        leader = cluster.brokers[2]
        state = cluster.image.topics["a"].partitions[0]
        asked = AlterPartition("a", 0, state.leader_epoch, state.partition_epoch, (1, 2, 3))
        ((_, outcome, _),) = await leader.alter_partitions(2, leader.this_broker.broker_epoch, [asked])
        assert outcome.error_code is ErrorCode.INELIGIBLE_REPLICA
        _, results = await leader.elect_leaders(ElectionType.PREFERRED, {"a": [0]})
        assert results["a"][0][1].error_code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

    run(scenario)


def test_the_store_is_away_meanwhile():
    async def scenario(cluster):
        await cluster.topic("a", (1, 2, 3))
        cluster.ensemble.expire(cluster.stores[1])
        cluster.ensemble.disconnect(cluster.stores[1])
        cluster.brokers[1].this_broker.replicas_offline([("a", 0)])
        await cluster.wait_ms(10_000)
        cluster.ensemble.reconnect(cluster.stores[1])
        await cluster.wait_ms(1_000)
        await cluster.wait_ms(1_000)
        assert 1 not in cluster.partition("a")[1]
        assert cluster.image.brokers[1].offline

    run(scenario)


def test_the_last_replica_of_a_missing_folder_does_not_lead_and_another_may_be_asked_to():
    async def scenario(cluster):
        await cluster.topic("a", (1, 2), min_insync_replicas="1")
        await cluster.in_sync("a", (1,))
        epoch = cluster.brokers[1].this_broker.broker_epoch
        await cluster.brokers.pop(1).this_broker.close()
        await cluster.settle()
        again = await cluster.begin(1)
        await again.this_broker.replicas_lost([], [("a", 0)])
        await again.this_broker.register({"P": ("host", 1)}, None, [epoch])
        await cluster.settle()
        assert cluster.partition("a") == (-1, (), (1,))
        assert cluster.image.brokers[1].active
        _, results = await again.elect_leaders(ElectionType.UNCLEAN, {"a": [0]})
        assert results["a"][0][1].error_code is ErrorCode.NONE
        await cluster.settle()
        assert cluster.partition("a")[0] == 2

    run(scenario)


def test_reports_end_with_the_broker():
    async def scenario(cluster):
        await cluster.topic("a", (1, 2))
        broker = cluster.brokers.pop(1)
        cluster.ensemble.disconnect(cluster.stores[1])
        before = asyncio.all_tasks()
        broker.this_broker.replicas_offline([("a", 0)])
        await asyncio.sleep(0)
        assert not asyncio.all_tasks() <= before
        await broker.this_broker.close()
        await cluster.settle()
        assert asyncio.all_tasks() <= before

    run(scenario)
