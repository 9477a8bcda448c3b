"""MqttSource and MqttSink against a real server: acknowledgements follow commits, and nothing is lost in
between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from local_mosquitto import Mosquitto, mosquitto, program
from paho.mqtt.enums import CallbackAPIVersion
from sink_batches import json_batch, keyed_batch, settings_of, sink_context

from moldau.connect import Batch, ConnectError, Read, Retriable, SourceContext
from moldau.connect.connectors.mqtt.sink import MqttSink
from moldau.connect.connectors.mqtt.source import MqttSource

pytestmark = pytest.mark.skipif(program() is None, reason="mosquitto is not installed")
SECONDS_MAX = 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Mosquitto]:
    with mosquitto(tmp_path / "mosquitto") as server:
        yield server


class Reading:
    """A started source with one topic filter."""

    def __init__(self, server: Mosquitto, **settings: Any) -> None:
        self.source = MqttSource()
        given = {"mqtt.server.uri": server.uri, "mqtt.topics": ["sensors/#"], **settings}
        context = SourceContext("c", 0, lambda: False, lambda seconds: False, lambda: None)
        self.source.start(settings_of(MqttSource, given), context)
        (self.partition,) = self.source.partitions()
        self.offset: Any = None

    def take(self, count: int, offset: Any = None) -> list[bytes]:
        """So many payloads after an offset; their own is kept."""
        return [value.as_py() for batch in self.batches(count, offset) for value in batch.value.values]

    def batches(self, count: int, offset: Any = None) -> list[Batch]:
        """The same, whole."""
        batches: list[Batch] = []
        deadline = time.monotonic() + SECONDS_MAX
        for read in self.source.read(self.partition, offset or self.offset):
            if isinstance(read, Read):
                batches += read.batches
                self.offset = read.offset
            if sum(map(len, batches)) >= count:
                return batches
            assert time.monotonic() < deadline, batches
            time.sleep(0.005)
        raise AssertionError("the source ended")

    def open(self) -> None:
        next(self.source.read(self.partition, self.offset))

    def commit(self) -> None:
        self.source.committed(self.partition, self.offset)


def publish(server: Mosquitto, *payloads: bytes, topic: str = "sensors/a", qos: int = 1) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", server.port)
    client.loop_start()
    for payload in payloads:
        client.publish(topic, payload, qos).wait_for_publish(SECONDS_MAX)
    client.disconnect()
    client.loop_stop()


def subscribed(server: Mosquitto, count: int, then: Callable[[], None]) -> list[tuple[str, bytes]]:
    """What arrives for any topic while something is done."""
    arrived: list[tuple[str, bytes]] = []
    ready, done = threading.Event(), threading.Event()

    def on_message(client: Any, data: Any, message: Any) -> None:
        arrived.append((message.topic, message.payload))
        if len(arrived) >= count:
            done.set()

    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.on_message = on_message
    client.on_subscribe = lambda *arguments: ready.set()
    client.connect("127.0.0.1", server.port)
    client.subscribe("#", 1)
    client.loop_start()
    assert ready.wait(SECONDS_MAX)
    then()
    assert done.wait(SECONDS_MAX), arrived
    client.disconnect()
    client.loop_stop()
    return arrived


def test_messages_are_records_with_their_topic_as_key(server: Mosquitto) -> None:
    reading = Reading(server)
    reading.open()
    publish(server, b"21.5")
    (batch,) = reading.batches(1)
    assert (batch.topic, batch.key.values.to_pylist(), batch.value.values.to_pylist()) == (
        "mqtt",
        ["sensors/a"],
        [b"21.5"],
    )
    assert batch.headers is not None
    assert [header.key for header in batch.headers[0]] == ["mqtt.qos", "mqtt.retained", "mqtt.duplicate"]
    reading.source.stop()


def test_what_is_not_committed_is_sent_again_to_the_next_start_and_what_is_committed_is_not(
    server: Mosquitto,
) -> None:
    reading = Reading(server)
    reading.open()
    publish(server, b"1", b"2")
    assert reading.take(2) == [b"1", b"2"]
    reading.commit()
    publish(server, b"3")
    assert reading.take(1) == [b"3"]
    publish(server, b"4")  # neither handed over nor acknowledged
    reading.source.stop()
    again = Reading(server)
    assert again.take(2, reading.offset) == [b"3", b"4"]
    again.commit()
    again.source.stop()
    third = Reading(server)
    third.open()
    publish(server, b"5")
    assert third.take(1, again.offset) == [b"5"]
    third.source.stop()


def test_after_a_transaction_that_failed_the_same_messages_come_again(server: Mosquitto) -> None:
    reading = Reading(server)
    reading.open()
    publish(server, b"1")
    assert reading.take(1) == [b"1"]
    reading.commit()
    committed = reading.offset
    publish(server, b"2", b"3")
    assert reading.take(2) == [b"2", b"3"]
    assert reading.take(2, committed) == [b"2", b"3"]
    reading.commit()
    reading.source.stop()


def test_a_server_that_goes_and_comes_back(server: Mosquitto) -> None:
    reading = Reading(server)
    reading.open()
    publish(server, b"1")
    assert reading.take(1) == [b"1"]
    reading.commit()
    server.stop()
    deadline = time.monotonic() + SECONDS_MAX
    with pytest.raises(Retriable, match="the connection is lost"):
        reading.take(1)
    server.start()
    publish(server, b"2")
    while True:
        try:
            assert reading.take(1) == [b"2"]
            break
        except Retriable:
            assert time.monotonic() < deadline + SECONDS_MAX
            time.sleep(0.05)
    reading.source.stop()


def test_a_wrong_login_says_so(tmp_path: Path) -> None:
    with mosquitto(tmp_path / "closed", "allow_anonymous false\n") as server:
        reading = Reading(server, **{"mqtt.username": "me", "mqtt.password": "wrong"})
        with pytest.raises(ConnectError, match="refuses the session: Not authorized"):
            reading.open()
        reading.source.stop()


def test_nobody_there_is_retriable(server: Mosquitto) -> None:
    server.stop()
    with pytest.raises(Retriable, match="cannot be reached"):
        Reading(server).open()


def started_sink(server: Mosquitto, bad: list[str], **settings: Any) -> MqttSink:
    sink = MqttSink()
    sink.start(settings_of(MqttSink, {"mqtt.server.uri": server.uri, **settings}), sink_context(bad))
    return sink


def test_records_are_published(server: Mosquitto) -> None:
    bad: list[str] = []
    sink = started_sink(server, bad, **{"mqtt.topic": "out/${topic}/${key}"})

    def write() -> None:
        sink.write(keyed_batch({"a": {"v": 1}, "b+": "text", "c": "text"}), 0)
        sink.flush()

    assert subscribed(server, 2, write) == [("out/orders/a", b'{"v":1}'), ("out/orders/c", b"text")]
    assert bad == ["1: 'out/orders/b+' is no topic to publish to"]
    sink.stop()


def test_more_than_may_be_under_way(server: Mosquitto) -> None:
    sink = started_sink(server, [])

    def write() -> None:
        sink.write(json_batch([f"{number}" for number in range(3000)]), 0)
        sink.flush()

    assert [payload for _, payload in subscribed(server, 3000, write)] == [
        b"%d" % number for number in range(3000)
    ]
    sink.stop()


def test_a_flush_without_a_server_is_retriable(server: Mosquitto) -> None:
    sink = started_sink(server, [])
    server.stop()
    with pytest.raises(Retriable):
        write_and_flush(sink)
    sink.stop()


def write_and_flush(sink: MqttSink) -> None:
    """Until it fails: that the connection is lost is noticed some time after it is."""
    for number in range(10_000):
        sink.write(json_batch(["x"], number), number)
        sink.flush()
