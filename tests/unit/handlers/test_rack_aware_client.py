"""librdkafka reads from the follower in its rack, and goes on at the leader when that follower stops."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from brokers_world import Brokers, with_brokers
from confluent_kafka import Consumer, Producer, TopicPartition

T = TypeVar("T")
WAIT_SECONDS = 50


@pytest.mark.client
def test_a_consumer_reads_from_its_rack_and_survives_its_replica(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (1, 2, 3), (2, 3, 1))
        servers = ",".join(f"127.0.0.1:{node.listeners.all[0].port}" for node in brokers.nodes.values())
        settings = {"bootstrap.servers": servers}
        producer = Producer({**settings, "enable.idempotence": True})
        consumer = Consumer(
            {
                **settings,
                "group.id": "readers",
                "client.rack": "rack-3",
                "enable.auto.commit": False,
            }
        )

        async def beside(work: Callable[[], T]) -> T:
            return await asyncio.get_running_loop().run_in_executor(None, work)

        def produced(first: int, last: int) -> None:
            for number in range(first, last):
                producer.produce("t", b"%d" % number, partition=number % 2)
            assert producer.flush(WAIT_SECONDS) == 0

        def read(count: int) -> list[tuple[int, int]]:
            found: list[tuple[int, int]] = []
            while len(found) < count:
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    found.append((message.partition(), int(message.value() or b"")))
            return found

        def in_order(found: list[tuple[int, int]], first: int, last: int) -> bool:
            return all(
                [number for at, number in found if at == index]
                == [number for number in range(first, last) if number % 2 == index]
                for index in (0, 1)
            )

        try:
            # Not subscribed: a group's rebalance is another matter.
            consumer.assign([TopicPartition("t", index, 0) for index in (0, 1)])
            await beside(lambda: produced(0, 200))
            assert in_order(await beside(lambda: read(200)), 0, 200)
            sent = {node_id: node.replicas.stats["t"].bytes_out for node_id, node in brokers.nodes.items()}
            assert sent[3] > 0
            assert sent[1] == sent[2] == 0, "the leaders sent it away before it read anything"
            await brokers.nodes.pop(3).stop()
            await beside(lambda: produced(200, 300))
            assert in_order(await beside(lambda: read(100)), 200, 300), "nothing is lost, nothing comes twice"
        finally:
            await beside(consumer.close)

    with_brokers(
        tmp_path,
        (1, 2, 3),
        scene,
        replica_selector_class="RackAwareReplicaSelector",
    )
