"""What librdkafka makes of a quota: it is told how long to wait, loses nothing, goes on when it is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from client_confluent import create_topic
from client_model import eventually
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.tools.main import main

RECORDS = 40
VALUE = b"v" * 10_000


@pytest.fixture
def client_id(bootstrap: str) -> Iterator[str]:
    """A client id with small quotas, which only this test uses."""
    name = f"quota-{os.urandom(4).hex()}"
    rates = ["--producer-byte-rate", "5000", "--consumer-byte-rate", "5000"]
    assert main(["quotas", "add", "--client-id", name, *rates, "-b", bootstrap]) == 0
    yield name
    main(["quotas", "remove", "--client-id", name, "-b", bootstrap])


def lift(bootstrap: str, client_id: str, key: str) -> None:
    assert main(["quotas", "remove", key, "--client-id", client_id, "-b", bootstrap]) == 0


def test_a_producer_and_a_consumer_with_quotas(bootstrap: str, client_id: str) -> None:
    topic = f"quotas-{os.urandom(4).hex()}"
    create_topic(bootstrap, topic)
    told: list[float] = []
    config = {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "throttle_cb": lambda event: told.append(event.throttle_time),
    }
    producer = Producer({**config, "message.timeout.ms": 120_000, "enable.idempotence": True})
    outcomes: list[object] = []
    for number in range(RECORDS):
        producer.produce(
            topic, VALUE, str(number).encode(), on_delivery=lambda error, _: outcomes.append(error)
        )
        producer.poll(0)
    eventually(lambda: producer.poll(0.1) is not None and bool(told))
    assert max(told) > 0
    lift(bootstrap, client_id, "producer_byte_rate")
    assert producer.flush(100) == 0
    assert outcomes == [None] * RECORDS
    told.clear()
    consumer = Consumer({**config, "group.id": client_id, "fetch.message.max.bytes": 50_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    keys: list[int] = []

    def read_until(enough: int) -> None:
        def read() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                keys.append(int(message.key()))
            return len(keys) >= enough or (enough < RECORDS and bool(told))

        eventually(read, 100)

    read_until(RECORDS - 1)
    assert told
    lift(bootstrap, client_id, "consumer_byte_rate")
    read_until(RECORDS)
    consumer.close()
    assert keys == list(range(RECORDS))
