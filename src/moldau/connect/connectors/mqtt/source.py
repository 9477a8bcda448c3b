"""A source of MQTT messages. At least once: a message of quality 1 or 2 is acknowledged only when its
record is
committed in Kafka, and until then the server sends it again after a loss.

    offset   {"received": 812}   how many messages this start has handed over: which acknowledgements a
    commit frees

A server knows where a session stands, so nothing is read from the offset. Quality 0 may lose messages, as
everywhere.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as paho
import pyarrow as pa

from moldau.connect.batch import Batch, Column, Header
from moldau.connect.connectors.mqtt.session import Session
from moldau.connect.connectors.mqtt.settings import MQTT_SETTINGS
from moldau.connect.errors import ConnectError
from moldau.connect.schema import Schema, Type
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.source import Read, Source, SourceContext, SourceOffset, SourcePartition

_READING = "Reading"
_BATCH_RECORDS_MAX = 1000
_KEYS = Schema(Type.STRING)
_VALUES = Schema(Type.BYTES)


@dataclass(frozen=True, slots=True)
class _Message:
    topic: str
    payload: bytes
    qos: int
    retained: bool
    duplicate: bool
    id: int
    connection: int
    at_ms: int


class _Inbox:
    """Between paho's thread and the task's.

    Bounded for quality 1 and 2, because the server stops sending at `mqtt.unacknowledged.max` (MQTT 5) or
    at its
    own limit (3.1.1); of quality 0 what does not fit is dropped and counted.
    """

    def __init__(self, messages_max: int) -> None:
        self._lock = threading.Lock()
        self._messages: deque[_Message] = deque()
        self._messages_max = messages_max
        self.dropped = 0

    def put(self, message: _Message) -> None:
        with self._lock:
            if message.qos == 0 and len(self._messages) >= self._messages_max:
                self.dropped += 1
                return
            self._messages.append(message)

    def take(self) -> list[_Message]:
        with self._lock:
            count = min(len(self._messages), _BATCH_RECORDS_MAX)
            return [self._messages.popleft() for _ in range(count)]


class _Subscription:
    """One topic filter: its session, its inbox, and which messages wait for a commit."""

    def __init__(self, settings: Mapping[str, Any], name: str, topics: str, received: int) -> None:
        self._qos: int = settings["mqtt.qos"]
        self._topics = topics
        self._inbox = _Inbox(settings["mqtt.unacknowledged.max"])
        clean = settings["mqtt.clean.session.enabled"]
        self.session = Session(settings, name, clean=clean, at_a_time=settings["mqtt.unacknowledged.max"])
        self.session.client.on_message = self._on_message
        self.session.client.on_subscribe = self._on_subscribe
        self._refused: str | None = None
        self._unacknowledged: deque[tuple[int, _Message]] = deque()
        self._received = received

    def open(self) -> None:
        self.session.open(lambda: self.session.client.subscribe(self._topics, self._qos))

    def uncommitted(self, received: int) -> list[tuple[int, _Message]]:
        """What was handed over after that many."""
        return [each for each in self._unacknowledged if each[0] > received]

    def take(self) -> list[tuple[int, _Message]]:
        """What has arrived, numbered."""
        if self._refused:
            raise ConnectError(f"the server refuses to subscribe to {self._topics}: {self._refused}")
        messages = self._inbox.take()
        if not messages:
            self.session.check()
        numbered = list(enumerate(messages, self._received + 1))
        self._received += len(numbered)
        self._unacknowledged.extend(numbered)
        return numbered

    def committed(self, received: int) -> None:
        while self._unacknowledged and self._unacknowledged[0][0] <= received:
            _, message = self._unacknowledged.popleft()
            if message.qos and message.connection == self.session.connections:  # else it is sent again
                self.session.client.ack(message.id, message.qos)

    def _on_message(self, client: paho.Client, data: Any, message: paho.MQTTMessage) -> None:
        self._inbox.put(
            _Message(
                message.topic,
                bytes(message.payload),
                message.qos,
                message.retain,
                message.dup,
                message.mid,
                self.session.connections,
                time.time_ns() // 1_000_000,
            )
        )

    def _on_subscribe(self, client: paho.Client, data: Any, mid: int, reasons: Any, properties: Any) -> None:
        refused = [str(reason) for reason in reasons if reason.is_failure]
        self._refused = refused[0] if refused else None


class MqttSource(Source):
    """Messages as records: the key is the message's topic, the value its payload as bytes."""

    exactly_once = False
    settings = (
        Setting(
            "mqtt.topics",
            SettingType.LIST,
            "Topic filters, as sensors/+/temperature; each is a session of its own.",
            REQUIRED,
            Importance.HIGH,
            _READING,
        ),
        Setting(
            "kafka.topic", SettingType.STRING, "The topic to write to.", "mqtt", Importance.HIGH, _READING
        ),
        Setting(
            "mqtt.qos",
            SettingType.INT,
            "Quality of service to ask for: 0, 1 or 2.",
            1,
            Importance.MEDIUM,
            _READING,
            check=lambda qos: None if qos in (0, 1, 2) else f"{qos} is not 0, 1 or 2",
        ),
        Setting(
            "mqtt.clean.session.enabled",
            SettingType.BOOLEAN,
            "Forget what came while the connector was away. Off: the server keeps it.",
            False,
            Importance.MEDIUM,
            _READING,
        ),
        Setting(
            "mqtt.unacknowledged.max",
            SettingType.INT,
            "How many messages may be under way to Kafka.",
            1000,
            Importance.LOW,
            _READING,
            check=lambda count: None if 1 <= count <= 65_535 else f"{count} is not from 1 to 65535",
        ),
        *MQTT_SETTINGS,
    )

    def start(self, settings: Mapping[str, Any], context: SourceContext) -> None:
        """Sessions are opened when a filter is first read."""
        super().start(settings, context)
        self._subscriptions: dict[str, _Subscription] = {}

    def partitions(self) -> Sequence[SourcePartition]:
        """The topic filters."""
        return [{"topics": topics} for topics in self.config["mqtt.topics"]]

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """What has arrived. Retriable while the server is away."""
        topics = partition["topics"]
        received = int(offset["received"]) if offset else 0
        subscription = self._subscriptions.get(topics)
        if subscription is not None:
            yield self._read(subscription.uncommitted(received))
        else:
            name = self.config["mqtt.client.id"] or f"moldau-{self.context.connector}"
            number = self.config["mqtt.topics"].index(topics)
            subscription = _Subscription(self.config, f"{name}-{number}", topics, received)
            try:
                subscription.open()
            except BaseException:  # its thread would go on, and take the name from the next attempt's session
                subscription.session.close()
                raise
            self._subscriptions[topics] = subscription
        while not self.context.stopping():
            yield self._read(subscription.take())

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Acknowledge what is in Kafka."""
        subscription = self._subscriptions.get(partition["topics"])
        if subscription is not None:
            subscription.committed(offset["received"])

    def stop(self) -> None:
        """End the sessions' connections."""
        for subscription in self._subscriptions.values():
            subscription.session.close()

    def _read(self, numbered: Sequence[tuple[int, _Message]]) -> Read | None:
        if not numbered:
            return None
        return Read([self._batch([message for _, message in numbered])], {"received": numbered[-1][0]})

    def _batch(self, messages: Sequence[_Message]) -> Batch:
        headers = tuple(
            (
                Header("mqtt.qos", message.qos, Schema(Type.INT32)),
                Header("mqtt.retained", message.retained, Schema(Type.BOOLEAN)),
                Header("mqtt.duplicate", message.duplicate, Schema(Type.BOOLEAN)),
            )
            for message in messages
        )
        return Batch(
            self.config["kafka.topic"],
            Column(_KEYS, pa.array([message.topic for message in messages], pa.string())),
            Column(_VALUES, pa.array([message.payload for message in messages], pa.binary())),
            pa.array([message.at_ms for message in messages], pa.int64()),
            headers,
        )
