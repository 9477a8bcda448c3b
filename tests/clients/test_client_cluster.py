"""Our own client against a broker (Moldau, or Kafka: conftest.py): topics, positions, ranges as columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import BrokerProcess
from moldau.client.arrow import record_batches
from moldau.client.cluster import Cluster
from moldau.client.errors import ClusterTimeout, OffsetOutOfRange, RequestRefused, UnknownTopic
from moldau.common.records.compression import CODEC_NAMES

# Near enough that retention does not come for the records.
START_MS = int(time.time() - 3600) * 1000
QUICK = {"kafka.default.api.timeout.ms": "1500", "kafka.fetch.max.wait.ms": "100"}


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as cluster:
        yield cluster


def create(bootstrap: str, name: str, partitions: int = 1, **config: str) -> None:
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, config=dotted)])[name].result(20)


def produce(bootstrap: str, topic: str, values: list[str], **settings: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=0, timestamp=START_MS + index * 1000)
    assert producer.flush(20) == 0


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(20)
    return producer


def values(cluster: Cluster, topic: str, start: int, end: int, committed: bool = False) -> list[str]:
    batches = record_batches(cluster, topic, 0, start, end, read_committed=committed)
    return [value.decode() for each in batches for value in each["value"].to_pylist()]


def test_topics_and_their_partitions(bootstrap: str, topic: str, cluster: Cluster) -> None:
    create(bootstrap, topic, partitions=3)
    assert cluster.partition_counts([topic]) == {topic: 3}
    assert cluster.topics()[topic] == 3
    assert not any(name.startswith("__") for name in cluster.topics())
    assert cluster.partition_counts([]) == {}


def test_a_topic_that_is_not_there_is_named(bootstrap: str, topic: str, cluster: Cluster) -> None:
    create(bootstrap, topic)
    started = time.monotonic()
    with pytest.raises(UnknownTopic, match=f"there is no topic {topic}-other at {bootstrap}"):
        cluster.partition_counts([topic, f"{topic}-other"])
    assert time.monotonic() - started < 10
    with pytest.raises(UnknownTopic, match=f"topic {topic} has no partition 7, but 1 partitions"):
        cluster.offsets({(topic, 7): -1})


def test_offsets_by_position_and_by_time(bootstrap: str, topic: str, cluster: Cluster) -> None:
    create(bootstrap, topic, partitions=2)
    produce(bootstrap, topic, ["a", "b", "c"])
    both = {(topic, 0), (topic, 1)}
    assert cluster.offsets(dict.fromkeys(both, -2)) == {(topic, 0): 0, (topic, 1): 0}
    assert cluster.offsets(dict.fromkeys(both, -1)) == {(topic, 0): 3, (topic, 1): 0}
    assert cluster.offsets({(topic, 0): START_MS + 500}) == {(topic, 0): 1}
    assert cluster.offsets({(topic, 0): START_MS + 9000, (topic, 1): 0}) == {(topic, 0): -1, (topic, 1): -1}


def test_offsets_committed_by_us_are_everybodys(
    bootstrap: str, topic: str, group: str, cluster: Cluster
) -> None:
    create(bootstrap, topic, partitions=2)
    assert cluster.committed_offsets(group, [(topic, 0)]) == {}
    cluster.commit_offsets(group, {(topic, 0): 17}, "batch 4")
    assert cluster.committed_offsets(group, [(topic, 0), (topic, 1)]) == {(topic, 0): 17}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=20)
    consumer.close()
    assert (found.offset, found.metadata) == (17, "batch 4")


def test_a_group_with_members_keeps_its_offsets(
    bootstrap: str, topic: str, group: str, cluster: Cluster
) -> None:
    create(bootstrap, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 30
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.1)
    with pytest.raises(RequestRefused, match=f"cannot commit offsets of group '{group}'"):
        cluster.commit_offsets(group, {(topic, 0): 1})
    consumer.close()


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_records_of_every_codec_as_columns(bootstrap: str, topic: str, cluster: Cluster, codec: str) -> None:
    create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    for index in range(500):
        producer.produce(
            topic,
            None if index % 7 == 0 else f"value {index} {'x' * 50}",
            key=None if index % 5 == 0 else f"key {index}",
            headers=[("a", b"1"), ("b", None)] if index % 3 == 0 else None,
            timestamp=START_MS + index,
        )
    assert producer.flush(20) == 0
    batches = list(record_batches(cluster, topic, 0, 100, 400, include_headers=True, rows_max=90))
    assert [each.num_rows for each in batches] == [90, 90, 90, 30]
    rows = [row for each in batches for row in each.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(100, 400))
    for row in rows:
        index = row["offset"]
        assert row["value"] == (None if index % 7 == 0 else f"value {index} {'x' * 50}".encode())
        assert row["key"] == (None if index % 5 == 0 else f"key {index}".encode())
        header = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}] if index % 3 == 0 else None
        assert row["headers"] == header
        assert round(row["timestamp"].timestamp() * 1000) == START_MS + index
        assert (row["topic"], row["partition"], row["timestampType"]) == (topic, 0, 0)


def test_the_brokers_time(bootstrap: str, topic: str, cluster: Cluster) -> None:
    create(bootstrap, topic, message_timestamp_type="LogAppendTime")
    produce(bootstrap, topic, ["a", "b"])
    (batch,) = record_batches(cluster, topic, 0, 0, 2)
    assert batch["timestampType"].to_pylist() == [1, 1]
    assert abs(batch["timestamp"].to_pylist()[0].timestamp() - time.time()) < 60


def test_aborted_transactions_are_left_out(bootstrap: str, topic: str, cluster: Cluster) -> None:
    create(bootstrap, topic)
    first, second = transactional(bootstrap, f"{topic}-1"), transactional(bootstrap, f"{topic}-2")
    # Interleaved: what aborts and what commits lie between each other.
    for producer, text in ((first, "lost"), (second, "kept")):
        producer.begin_transaction()
        producer.produce(topic, f"{text} 1", partition=0)
        producer.flush(20)
    first.produce(topic, "lost 2", partition=0)
    first.flush(20)  # an abort drops what was not sent yet
    first.abort_transaction(20)
    second.produce(topic, "kept 2", partition=0)
    second.commit_transaction(20)
    first.begin_transaction()
    first.produce(topic, "kept 3", partition=0)
    first.commit_transaction(20)
    end = cluster.offsets({(topic, 0): -1}, read_committed=True)[topic, 0]
    assert end == 8  # five records and three markers
    assert values(cluster, topic, 0, end, committed=True) == ["kept 1", "kept 2", "kept 3"]
    assert values(cluster, topic, 0, end) == ["lost 1", "kept 1", "lost 2", "kept 2", "kept 3"]
    # From within the aborted transaction on: its beginning is not among what is fetched.
    assert values(cluster, topic, 2, end, committed=True) == ["kept 2", "kept 3"]


def test_an_open_transaction_is_waited_for_and_named(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, "a", partition=0)
    producer.flush(20)
    with Cluster(bootstrap, QUICK) as cluster:
        with pytest.raises(ClusterTimeout, match="last stable offset is 0, held back by an open transaction"):
            values(cluster, topic, 0, 1, committed=True)
        assert values(cluster, topic, 0, 1) == ["a"]
        producer.commit_transaction(20)
        assert values(cluster, topic, 0, 1, committed=True) == ["a"]


def test_a_range_beyond_the_end_times_out(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, ["a", "b"])
    with Cluster(bootstrap, QUICK) as cluster:
        batches = record_batches(cluster, topic, 0, 0, 3)
        with pytest.raises(ClusterTimeout, match=r"at offset 2 nothing came .*its high watermark is 2"):
            list(batches)


def test_what_was_deleted_is_an_error_with_the_range_that_is_there(
    bootstrap: str, topic: str, cluster: Cluster
) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, [str(index) for index in range(10)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        future.result(20)
    with pytest.raises(OffsetOutOfRange, match="the partition holds offsets 4 to 9") as caught:
        values(cluster, topic, 2, 10)
    error = caught.value
    assert (error.topic, error.partition, error.offset) == (topic, 0, 2)
    assert (error.earliest, error.latest) == (4, 10)
    with pytest.raises(OffsetOutOfRange):
        values(cluster, topic, 11, 12)
    assert values(cluster, topic, 4, 10) == [str(index) for index in range(4, 10)]


def test_a_topic_deleted_while_it_is_read(bootstrap: str, topic: str, cluster: Cluster) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, ["a", "b"])
    batches = record_batches(cluster, topic, 0, 0, 5, rows_max=1)
    assert next(batches)["value"].to_pylist() == [b"a"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(20)
    with pytest.raises(UnknownTopic, match=f"there is no topic {topic}"):
        list(batches)


def test_batches_larger_than_what_is_fetched_at_once(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    wanted = [f"{index} {'x' * 3000}" for index in range(30)]
    produce(bootstrap, topic, wanted, **{"batch.num.messages": 4})
    with Cluster(bootstrap, {"fetch.max.bytes": "1000"}) as cluster:
        assert values(cluster, topic, 0, 30) == wanted


def test_ranges_may_be_read_side_by_side_and_left_in_the_middle(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    wanted = [f"{index} {'x' * 3000}" for index in range(30)]
    produce(bootstrap, topic, wanted, **{"batch.num.messages": 2})
    with Cluster(bootstrap, {"fetch.max.bytes": "1000"}) as cluster:
        one, other = (record_batches(cluster, topic, 0, start, 30, rows_max=1) for start in (0, 7))
        for index in range(20):
            assert next(one)["value"].to_pylist() == [wanted[index].encode()]
            assert next(other)["value"].to_pylist() == [wanted[index + 7].encode()]
            assert cluster.offsets({(topic, 0): -1}) == {(topic, 0): 30}
        one.close()
        assert len(list(other)) == 3
        assert values(cluster, topic, 29, 30) == wanted[29:]


def test_a_broker_that_is_away_is_waited_for(private_broker: Callable[..., BrokerProcess]) -> None:
    broker = private_broker()
    create(broker.address, "t")
    wanted = [f"{index} {'x' * 3000}" for index in range(40)]
    produce(broker.address, "t", wanted, **{"batch.num.messages": 2})
    with Cluster(broker.address, {"fetch.max.bytes": "1000"}) as cluster:
        batches = record_batches(cluster, "t", 0, 0, 40, rows_max=1)
        found = [next(batches) for _ in range(5)]
        broker.kill()
        broker.start()
        found += batches
        assert [each["value"][0].as_py().decode() for each in found] == wanted
        broker.kill()
        broker.start()
        assert cluster.offsets({("t", 0): -1}) == {("t", 0): 40}


def test_a_broker_that_never_answers_is_named_soon() -> None:
    cluster = Cluster("127.0.0.1:1", first_contact_seconds=0.5)
    started = time.monotonic()
    with pytest.raises(
        ClusterTimeout, match=r"cannot list the topics, tried for 0\.5 seconds at 127\.0\.0\.1:1"
    ):
        cluster.topics()
    assert time.monotonic() - started < 5
