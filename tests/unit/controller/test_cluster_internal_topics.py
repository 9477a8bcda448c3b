"""What several brokers must agree on for groups and transactions: internal topics with all their replicas,
and producer ids that no two of them give."""

import asyncio
import logging

import pytest
from controller_cluster import Cluster

from moldau.broker.controller.topics import NewTopic
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.broker.replication.producer_ids import ProducerIds
from moldau.common.protocol.errors import ErrorCode

INTERNAL = (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)


@pytest.mark.parametrize("topic", INTERNAL)
def test_with_too_few_brokers_it_is_said_why_and_made_when_there_are_enough(
    topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's defaults: three replicas. The first broker of a cluster must not make it with one."""

    async def scene() -> None:
        cluster = Cluster()
        try:
            first, second = await cluster.start(1, 2)
            first.in_cluster = second.in_cluster = True
            for _ in range(2):
                (result,) = await first.auto_create_topics([topic])
                assert result.outcome.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
            assert "INVALID_REPLICATION_FACTOR" in first.uncreated[topic]
            assert len([line for line in caplog.messages if "cannot be created" in line]) == 1
            await cluster.start(3)
            (result,) = await first.auto_create_topics([topic])
            assert not result.outcome.error_code
            assert first.uncreated == {}
            for state in cluster.image.topics[topic].partitions:
                assert sorted(state.replicas) == [1, 2, 3]
        finally:
            for controller in cluster.brokers.values():
                await controller.this_broker.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scene())


@pytest.mark.parametrize("topic", INTERNAL)
def test_a_single_broker_makes_it_with_one_replica(topic: str) -> None:
    async def scene() -> None:
        cluster = Cluster()
        (only,) = await cluster.start(1)
        try:
            (result,) = await only.auto_create_topics([topic])
            assert not result.outcome.error_code
            assert {state.replicas for state in cluster.image.topics[topic].partitions} == {(1,)}
        finally:
            await only.this_broker.close()

    asyncio.run(scene())


def test_no_two_brokers_give_the_same_producer_id() -> None:
    """They allocate blocks at the same time, and a block whose append's answer is lost is lost with it."""

    async def scene() -> None:
        cluster = Cluster()
        brokers = await cluster.start(1, 2, 3)
        try:
            sources = [ProducerIds(broker) for broker in brokers]
            given: list[int] = []

            async def take(source: ProducerIds) -> None:
                for _ in range(2500):
                    given.append(await source.next())

            await asyncio.gather(*[take(source) for source in sources for _ in range(2)])
            assert len(given) == 15_000
            assert len(set(given)) == 15_000
            assert cluster.image.next_producer_id > max(given)
            blocks = [await broker.allocate_producer_ids() for broker in brokers]
            assert not set.intersection(*map(set, blocks))
        finally:
            for broker in brokers:
                await broker.this_broker.close()

    asyncio.run(scene())


def test_a_broker_can_find_out_what_was_decided_while_it_stood_still() -> None:
    async def scene() -> None:
        cluster = Cluster()
        first, second = await cluster.start(1, 2)
        try:
            store = cluster.stores[1]
            hears = store._hear
            store._hear = lambda: None  # what it is sent waits in its sockets
            await second.create_topics([NewTopic("late", 1, 1)])
            await cluster.settle()
            assert "late" not in first.view.image.topics
            store._hear = hears
            assert await first.confirm()
            assert "late" in first.view.image.topics
            assert await first.confirm(), "nothing new: an entry of its own"
            await cluster.settle()
            assert second.view.image == first.view.image
            cluster.ensemble.expire(store)
            assert not await first.confirm(), "its session is over"
        finally:
            for controller in cluster.brokers.values():
                await controller.this_broker.close()

    asyncio.run(scene())
