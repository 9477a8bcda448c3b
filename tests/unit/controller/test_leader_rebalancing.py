"""Leadership returns to the preferred replicas: where it is uneven, and nobody becomes unavailable by it."""

import pytest
from controller_cluster import run

from moldau.broker.controller.decision import decided
from moldau.broker.controller.in_sync import Rules
from moldau.broker.controller.rebalancing import rebalance_leaders
from moldau.broker.controller.topics import NewTopic
from moldau.broker.metadata.changes import replay
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, TopicState

TOPIC_ID = b"a" * 16


def state(leader, replicas=(1, 2), isr=None):
    return PartitionState(leader, 4, 7, replicas, replicas if isr is None else isr)


def leaders_after(*partitions, percentage=10, offline=(), **broker):
    brokers = {n: BrokerState(n, n, {}) for n in (1, 2, 3)}
    brokers[1] = brokers[1]._replace(offline={TOPIC_ID: offline} if offline else {}, **broker)
    image = Image(version=5, brokers=brokers, topics={"a": TopicState("a", TOPIC_ID, partitions)})
    decision = decided(rebalance_leaders(image, percentage, lambda topic: Rules(1)))
    for changes in (*decision.earlier, decision.changes):
        image = replay(image, image.version + 1, changes)
    return [each.leader for each in image.topics["a"].partitions], decision


@pytest.mark.parametrize(
    ("led_by_others", "percentage", "moved"),
    [(0, 0, False), (1, 10, False), (2, 10, True), (10, 10, True), (1, 0, True), (10, 100, False)],
)
def test_uneven_is_more_than_the_percentage(led_by_others, percentage, moved):
    partitions = [state(2)] * led_by_others + [state(1)] * (10 - led_by_others)
    leaders, decision = leaders_after(*partitions, percentage=percentage)
    assert leaders == ([1] * 10 if moved else [each.leader for each in partitions])
    assert decision.answer == ({1: led_by_others} if moved else {})


@pytest.mark.parametrize(
    ("partition", "broker"),
    [
        (state(2, isr=(2,)), {}),
        (state(2), {"fenced": True}),
        (state(2), {"shutting_down": True}),
        (state(2), {"offline": (0,)}),
        (state(-1, isr=()), {}),
        (state(3, replicas=(9, 3)), {}),
    ],
)
def test_who_cannot_lead_is_not_elected(partition, broker):
    assert leaders_after(partition, **broker)[0] == [partition.leader]


def test_many_are_moved_in_several_entries():
    leaders, decision = leaders_after(*[state(2)] * 2_500)
    assert leaders == [1] * 2_500
    assert len(decision.earlier) == 2


def test_the_controller_looks_every_five_minutes():
    async def scenario(cluster):
        for number in range(5):
            await cluster.brokers[2].create_topics([NewTopic(f"t{number}", assignments=[(0, (3, 1, 2))])])
        await cluster.crash(3)
        await cluster.start(3)
        for number in range(5):
            await cluster.in_sync(f"t{number}", (1, 2, 3))
        assert {each.partitions[0].leader for each in cluster.image.topics.values()} == {1}
        await cluster.wait_ms(300_000)
        assert {each.partitions[0].leader for each in cluster.image.topics.values()} == {3}

    run(scenario)


def test_so_does_the_next_controller_and_no_other():
    async def scenario(cluster):
        await cluster.topic("a", (3, 2))
        await cluster.crash(3)
        await cluster.start(3)
        await cluster.in_sync("a", (2, 3))
        await cluster.brokers.pop(1).this_broker.close()
        await cluster.settle()
        decided_by = []
        for node_id, controller in cluster.brokers.items():
            decide = controller._loop.decide

            def noted(*arguments, decide=decide, node_id=node_id, **named):
                decided_by.append(node_id)
                return decide(*arguments, **named)

            controller._loop.decide = noted
        await cluster.wait_ms(300_000)
        assert cluster.partition("a")[0] == 3
        assert decided_by == [cluster.image.controller_id]

    run(scenario)
