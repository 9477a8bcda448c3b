"""Single matters of producing and reading, with each client that can: time, idempotence, sizes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from client_agents import AgentClient
from client_aiokafka import AiokafkaClient
from client_confluent import ConfluentClient, create_topic
from client_kafka_python import KafkaPythonClient
from client_model import Client, Message
from confluent_kafka import Consumer, KafkaException, TopicPartition

BASE_MS = 1_700_000_000_000
TIMES_MS = [BASE_MS, BASE_MS + 999, BASE_MS + 1000, BASE_MS + 4500, BASE_MS + 100_000]
OFFSETS = [0, 1, 1, 5, None]


@pytest.fixture
def timed_topic(topic: str, bootstrap: str) -> str:
    """Ten records, a second apart."""
    create_topic(bootstrap, topic)
    messages = [Message(None, str(i).encode(), timestamp_ms=BASE_MS + 1000 * i) for i in range(10)]
    ConfluentClient(bootstrap).produce(topic, messages)
    return topic


def test_offsets_by_time_with_confluent(timed_topic: str, bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": timed_topic})
    found = [
        consumer.offsets_for_times([TopicPartition(timed_topic, 0, one)], timeout=10)[0].offset
        for one in TIMES_MS
    ]
    # librdkafka says -1 (the end) where no record is that young.
    assert found == [-1 if one is None else one for one in OFFSETS]
    assert consumer.get_watermark_offsets(TopicPartition(timed_topic, 0), timeout=10) == (0, 10)
    consumer.close()


def test_offsets_by_time_with_java(timed_topic: str, java: AgentClient) -> None:
    assert java.call("offsets_for_times", topic=timed_topic, times=TIMES_MS) == OFFSETS
    assert java.call("list_offset", topic=timed_topic, spec="max_timestamp") == [9, BASE_MS + 9000]
    assert java.call("list_offset", topic=timed_topic, spec="earliest")[0] == 0
    assert java.call("list_offset", topic=timed_topic, spec="latest")[0] == 10
    assert java.call("list_offset", topic=timed_topic, spec="latest", committed=True)[0] == 10
    assert java.call("list_offset", topic=timed_topic, spec="earliest_local")[0] == 0
    assert java.call("list_offset", topic=timed_topic, spec="latest_tiered")[0] == -1


def test_offsets_by_time_with_kafkajs(timed_topic: str, kafkajs: AgentClient) -> None:
    # KafkaJS answers with the end where no record is that young.
    expected = [10 if one is None else one for one in OFFSETS]
    assert kafkajs.call("offsets_for_times", topic=timed_topic, times=TIMES_MS) == expected


def test_offsets_by_time_with_kafka_python(timed_topic: str, bootstrap: str) -> None:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Place

    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    place = Place(timed_topic, 0)
    found = [consumer.offsets_for_times({place: one})[place] for one in TIMES_MS]
    assert [None if one is None else one.offset for one in found] == OFFSETS
    assert consumer.end_offsets([place]) == {place: 10}
    consumer.close()


def test_offsets_by_time_with_aiokafka(timed_topic: str, bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Place

    async def ask() -> list[int | None]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        place = Place(timed_topic, 0)
        found = [(await consumer.offsets_for_times({place: one}))[place] for one in TIMES_MS]
        await consumer.stop()
        return [None if one is None else one.offset for one in found]

    client = AiokafkaClient(bootstrap)
    assert client.run(ask()) == OFFSETS
    client.close()


def test_timestamps_of_the_writer_are_kept(client: Client, timed_topic: str) -> None:
    found = client.read({timed_topic: 10})[timed_topic]
    assert [one.timestamp_ms for one in found] == [BASE_MS + 1000 * i for i in range(10)]


def test_append_time_is_the_brokers(client: Client, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    ConfluentClient(bootstrap).produce(topic, [Message(b"k", b"v", timestamp_ms=BASE_MS)])
    (found,) = client.read({topic: 1})[topic]
    assert before_ms - 1 <= found.timestamp_ms <= time.time() * 1000 + 1


def test_an_idempotent_producer_is_served(
    client_by_name: Callable[[str], Client], bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic)
    messages = [Message(None, str(i).encode()) for i in range(100)]
    ConfluentClient(bootstrap).produce(topic, messages, "lz4", **{"enable.idempotence": True})
    KafkaPythonClient(bootstrap).produce(topic, messages, "gzip", enable_idempotence=True)
    client_by_name("aiokafka").produce(topic, messages, "zstd", enable_idempotence=True)
    client_by_name("kafkajs").produce(topic, messages, idempotent=True)
    client_by_name("java").produce(topic, messages, "snappy")
    found = ConfluentClient(bootstrap).read({topic: 500})[topic]
    assert [one.offset for one in found] == list(range(500))
    assert [one.value for one in found] == [one.value for one in messages] * 5


def test_a_record_over_the_topics_limit_is_refused_and_the_next_one_taken(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, max_message_bytes="20000")
    client = ConfluentClient(bootstrap)
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        client.produce(topic, [Message(None, bytes(30_000))])
    client.produce(topic, [Message(None, b"small")])
    assert [one.value for one in client.read({topic: 1})[topic]] == [b"small"]


def test_a_large_record_passes(client: Client, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, max_message_bytes="4000000")
    ConfluentClient(bootstrap).produce(topic, [Message(b"k", b"x" * 3_000_000), Message(b"k", b"after")])
    found = client.read({topic: 2})[topic]
    assert [len(one.value or b"") for one in found] == [3_000_000, 5]


def test_a_topic_is_made_on_first_use(bootstrap: str, topic: str) -> None:
    client = ConfluentClient(bootstrap)
    client.produce(topic, [Message(None, b"first")])
    assert [one.value for one in client.read({topic: 1})[topic]] == [b"first"]


def test_compression_of_the_topic_wins(client: Client, bootstrap: str, topic: str) -> None:
    from test_exchange import CODEC_NUMBERS, stored_codecs

    create_topic(bootstrap, topic, compression_type="zstd")
    messages = [Message(b"k", b"Moldau " * 2000, (("h", b"1"),)), Message(b"k", None)]
    ConfluentClient(bootstrap).produce(topic, messages, "lz4")
    assert stored_codecs(bootstrap, topic) == {CODEC_NUMBERS["zstd"]}
    found = client.read({topic: 2})[topic]
    assert [one.content for one in found] == [one.content for one in messages]
