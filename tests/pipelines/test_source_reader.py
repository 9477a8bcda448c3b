"""The streaming reader by itself, called as Spark calls it: a crash between two calls must change nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install 'moldau[spark]')")

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from moldau.client.cluster import Cluster
from moldau.client.errors import Retriable
from moldau.testing import Broker
from pyspark_moldau.cluster_view import PARTITIONS_AGE_SECONDS
from pyspark_moldau.errors import DataLossError, OptionError
from pyspark_moldau.option_rows import STREAM
from pyspark_moldau.options import parse_options
from pyspark_moldau.stream_reader import COMMIT_PAUSE_SECONDS, MoldauStreamReader

ALL = ReadAllAvailable()


class Clock:
    """Stands still until told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def reader(broker: Broker, topic: str, clock: Clock, told: list[str]) -> Callable[..., MoldauStreamReader]:
    """A reader of the test's topic, in a driver that has just started."""

    def make(**options: str) -> MoldauStreamReader:
        chosen = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **options}
        chosen = {name: value for name, value in chosen.items() if value}
        return MoldauStreamReader(parse_options(chosen, STREAM), clock, told.append)

    return make


def produce(broker: Broker, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=partition)
    producer.flush()


def offsets_read(reader: MoldauStreamReader, start: Any, end: Any) -> list[int]:
    batches = [
        batch
        for task in reader.partitions(start, end)
        for batch in pickle.loads(pickle.dumps(reader)).read(task)
    ]
    return sorted(offset for batch in batches for offset in batch.column("offset").to_pylist())


def test_what_executors_get_is_small(
    reader: Callable[..., MoldauStreamReader], broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    running = reader(startingOffsets="earliest")
    produce(broker, topic, 10)
    start = running.initialOffset()
    end = running.latestOffset(start, ALL)
    (task,) = running.partitions(start, end)
    assert len(pickle.dumps(running)) < 1000
    assert len(pickle.dumps(task)) < 250
    assert offsets_read(running, start, end) == list(range(10))


def test_latest_is_one_place(reader: Callable[..., MoldauStreamReader], broker: Broker, topic: str) -> None:
    """Spark asks for the initial offset more than once, and again after a crash in the first micro-batch."""
    broker.create_topic(topic)
    produce(broker, topic, 3)
    first = reader()
    start = first.initialOffset()
    produce(broker, topic, 2)
    assert first.initialOffset() == start == {topic: {"0": 3}}
    end = first.latestOffset(start, ALL)
    assert end == start, "the first micro-batch is empty, so that its end is where the query starts"
    assert first.partitions(start, end) == []
    assert offsets_read(first, end, first.latestOffset(end, ALL)) == [3, 4]

    second = reader()  # the driver died before the first micro-batch was done
    later = second.initialOffset()
    assert later == {topic: {"0": 5}}
    assert second.partitions(later, end) == []
    assert offsets_read(second, end, second.latestOffset(end, ALL)) == [3, 4]


def test_earliest_begins_at_once(
    reader: Callable[..., MoldauStreamReader], broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    produce(broker, topic, 3)
    running = reader(startingOffsets="earliest")
    assert running.latestOffset(running.initialOffset(), ALL) == {topic: {"0": 3}}
    assert running.reportLatestOffset() == {topic: {"0": 3}}


def test_available_now_is_a_fixed_end(
    reader: Callable[..., MoldauStreamReader], broker: Broker, topic: str
) -> None:
    broker.create_topic(topic)
    produce(broker, topic, 5)
    running = reader(startingOffsets="earliest", maxOffsetsPerTrigger="3", minOffsetsPerTrigger="3")
    running.prepareForTriggerAvailableNow()
    produce(broker, topic, 5)
    limit = running.getDefaultReadLimit()
    assert limit == ReadMaxRows(3)
    place = running.initialOffset()
    ends = []
    while (following := running.latestOffset(place, limit)) != place:
        ends.append(following[topic]["0"])
        place = following
    assert ends == [3, 5], "also without the three that it would wait for"


def test_waiting_has_an_end(
    reader: Callable[..., MoldauStreamReader], broker: Broker, topic: str, clock: Clock
) -> None:
    broker.create_topic(topic)
    produce(broker, topic, 1)
    running = reader(startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    limit = running.getDefaultReadLimit()
    start = running.initialOffset()
    first = running.latestOffset(start, limit)
    produce(broker, topic, 4)
    clock.now = 9.9
    assert running.latestOffset(first, limit) == first
    assert running.latestOffset(first, ALL) == {topic: {"0": 5}}, "Spark's own triggers do not wait"
    clock.now = 10
    assert running.latestOffset(first, limit) == {topic: {"0": 5}}


def test_a_group_that_is_in_use(
    reader: Callable[..., MoldauStreamReader], broker: Broker, topic: str, told: list[str], clock: Clock
) -> None:
    """Its offsets are not ours to write; the query goes on, says so once, and tries again later."""
    broker.create_topic(topic)
    produce(broker, topic, 3)
    member = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "log_level": 0})
    member.subscribe([topic])
    while not member.assignment():
        member.poll(0.05)
    running = reader(startingOffsets="earliest", groupId=topic)
    start = running.initialOffset()
    for _ in range(3):
        end = running.latestOffset(start, ALL)
        clock.now += COMMIT_PAUSE_SECONDS
    assert end == {topic: {"0": 3}}
    assert len(told) == 1
    assert f"can not be given to the group {topic}" in told[0]
    member.close()
    running.latestOffset(end, ALL)
    with Cluster(broker.bootstrap_servers) as cluster:
        assert cluster.committed_offsets(topic, [(topic, 0)]) == {(topic, 0): 3}


def test_a_group_with_a_topic_that_is_gone(
    reader: Callable[..., MoldauStreamReader], broker: Broker, topic: str, told: list[str]
) -> None:
    """What is still there is committed, at once."""
    broker.create_topic(topic)
    produce(broker, topic, 3)
    running = reader(subscribe="", subscribePattern=f"{topic}.*", groupId=topic, failOnDataLoss="false")
    start = {topic: {"0": 1}, f"{topic}-deleted": {"0": 5}}
    assert running.latestOffset(start, ALL) == {topic: {"0": 3}}
    with Cluster(broker.bootstrap_servers) as cluster:
        assert cluster.committed_offsets(topic, [(topic, 0)]) == {(topic, 0): 1}
    assert len(told) == 1, "the loss only"


def test_a_group_without_coordinator(
    reader: Callable[..., MoldauStreamReader], topic: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not hold the query up for long: its offsets are for people."""

    def fails(*_: object) -> None:
        raise Retriable("no coordinator")

    monkeypatch.setattr(Cluster, "coordinator", fails)
    monkeypatch.setattr("pyspark_moldau.cluster_view.GROUP_PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr("moldau.client.cluster.UNKNOWN_TOPIC_GRACE_SECONDS", 0.2)
    running = reader(groupId=topic, failOnDataLoss="false")
    assert running.latestOffset({topic: {"0": 2}}, ALL) == {}
    assert "tried for 0.2 seconds" in told[0]


def test_topics_that_are_gone(
    reader: Callable[..., MoldauStreamReader],
    broker: Broker,
    topic: str,
    told: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moldau.client.cluster.UNKNOWN_TOPIC_GRACE_SECONDS", 0.2)
    broker.create_topic(topic)
    produce(broker, topic, 3)
    start = {topic: {"0": 1}}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(10)
    with pytest.raises(DataLossError, match=f"{topic}-0 was deleted"):
        reader().latestOffset(start, ALL)
    with pytest.raises(OptionError, match="does not exist"):
        reader().initialOffset()
    lenient = reader(failOnDataLoss="false")
    assert lenient.latestOffset(start, ALL) == {}
    assert lenient.latestOffset({}, ALL) == {}
    assert len(told) == 1
    assert lenient.partitions(start, {}) == []


@pytest.mark.parametrize("trigger", ["always", "available now"])
def test_a_topic_made_again_that_is_longer_than_before(
    reader: Callable[..., MoldauStreamReader],
    broker: Broker,
    topic: str,
    told: list[str],
    clock: Clock,
    trigger: str,
) -> None:
    """Its id tells, and what follows is the same after a crash: it is in the two offsets of a micro-batch."""
    broker.create_topic(topic, partitions=2)
    produce(broker, topic, 3)
    produce(broker, topic, 2, partition=1)
    strict, lenient = reader(startingOffsets="earliest"), reader(failOnDataLoss="false")
    if trigger == "available now":
        for each in (strict, lenient):
            each.prepareForTriggerAvailableNow()
    end = {topic: {"0": 3, "1": 2}}
    assert strict.latestOffset(strict.initialOffset(), ALL) == end
    assert strict.latestOffset(end, ALL) == lenient.latestOffset(end, ALL) == end
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(10)
    broker.create_topic(topic)
    produce(broker, topic, 5)
    clock.now += PARTITIONS_AGE_SECONDS
    back = strict.latestOffset(end, ALL)
    assert back == lenient.latestOffset(end, ALL) == {topic: {"0": 0, "1": 2}}
    with pytest.raises(DataLossError, match=f"{topic}-0 was deleted and made again"):
        strict.partitions(end, back)
    with pytest.raises(DataLossError, match="ends at offset 0, before 3 where the query goes on"):
        reader().partitions(end, back)  # the restarted query
    assert offsets_read(lenient, end, back) == []
    assert len(told) == 1
    following = lenient.latestOffset(back, ALL)
    assert offsets_read(lenient, back, following) == [0, 1, 2, 3, 4]
    assert "-1 was deleted" in told[1]
    assert lenient.latestOffset(following, ALL) == following


def test_a_planned_micro_batch_that_is_not_there_any_more(
    reader: Callable[..., MoldauStreamReader], broker: Broker, topic: str, told: list[str]
) -> None:
    """The driver died in it, and what is there now is shorter."""
    broker.create_topic(topic)
    produce(broker, topic, 3)
    planned = {topic: {"0": 1}}, {topic: {"0": 9}}
    retries = {"fetchOffset.retryIntervalMs": "1"}
    with pytest.raises(DataLossError, match="ends at offset 3, before 9 up to which it was to be read"):
        reader(**retries).partitions(*planned)
    assert offsets_read(reader(failOnDataLoss="false", **retries), *planned) == [1, 2]
    assert len(told) == 1


def test_a_new_partition_is_read_from_its_beginning(
    reader: Callable[..., MoldauStreamReader], broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, partitions=2)
    produce(broker, topic, 2, partition=1)
    running = reader(maxOffsetsPerTrigger="10")
    start = {topic: {"0": 0}}
    end = running.latestOffset(start, running.getDefaultReadLimit())
    assert end == {topic: {"0": 0, "1": 2}}
    assert offsets_read(running, start, end) == [0, 1]
