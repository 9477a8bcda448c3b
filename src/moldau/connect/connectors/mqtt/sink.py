"""A sink that publishes records as MQTT messages; with quality 1 or 2 a run is done when the server has
acknowledged it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import paho.mqtt.client as paho

from moldau.connect.batch import Batch
from moldau.connect.connectors.json_rows import as_json, row_values
from moldau.connect.connectors.mqtt.session import Session
from moldau.connect.connectors.mqtt.settings import MQTT_SETTINGS
from moldau.connect.errors import BadRecord, Retriable
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.sink import Sink, SinkContext

_WRITING = "Writing"
_UNDER_WAY_MAX = 1000
_PAYLOAD_BYTES_MAX = 268_435_455
_SECONDS_MAX = 60.0


class MqttSink(Sink):
    """Values as payloads: bytes and texts as they are, everything else as JSON."""

    settings = (
        Setting(
            "mqtt.topic",
            SettingType.STRING,
            "The topic to publish to; ${topic} and ${key} stand for the record's.",
            "${topic}",
            Importance.HIGH,
            _WRITING,
        ),
        Setting(
            "mqtt.qos",
            SettingType.INT,
            "Quality of service: 0, 1 or 2. With 0 messages may be lost.",
            1,
            Importance.MEDIUM,
            _WRITING,
            check=lambda qos: None if qos in (0, 1, 2) else f"{qos} is not 0, 1 or 2",
        ),
        Setting(
            "mqtt.retained.enabled",
            SettingType.BOOLEAN,
            "The server keeps each topic's last message for those who come later; a tombstone takes it away.",
            False,
            Importance.MEDIUM,
            _WRITING,
        ),
        *MQTT_SETTINGS,
    )

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """Connects. Retriable, ConnectError."""
        super().start(settings, context)
        name = settings["mqtt.client.id"] or f"moldau-{context.connector}"
        self._session = Session(settings, f"{name}-{context.task}", clean=True, at_a_time=_UNDER_WAY_MAX)
        self._under_way: deque[paho.MQTTMessageInfo] = deque()
        self._session.open()

    def write(self, batch: Batch, number: int) -> None:
        """Publish; `flush` waits for the acknowledgements."""
        self._session.check()
        keys, values = row_values(batch.key), row_values(batch.value)
        for row, (key, value) in enumerate(zip(keys, values, strict=True)):
            try:
                topic, payload = self._topic(batch.topic, key), _payload(value)
            except BadRecord as problem:
                self.context.bad_record(batch, row, problem)
                continue
            if value is None and not self.config["mqtt.retained.enabled"]:
                continue
            sent = self._session.client.publish(
                topic, payload, self.config["mqtt.qos"], self.config["mqtt.retained.enabled"]
            )
            self._under_way.append(sent)
            while len(self._under_way) >= _UNDER_WAY_MAX:
                self._take_acknowledged()

    def flush(self) -> None:
        """Wait until the server has all. Retriable."""
        try:
            while self._under_way:
                self._take_acknowledged()
        except Retriable:
            self._under_way.clear()
            raise

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions."""
        topic = settings["mqtt.topic"].replace("${topic}", "").replace("${key}", "")
        return {"mqtt.topic": ["a topic to publish to has no + and no #"]} if {"+", "#"} & set(topic) else {}

    def stop(self) -> None:
        """End the connection."""
        if hasattr(self, "_session"):
            self._session.close()

    def _take_acknowledged(self) -> None:
        """The oldest one. Retriable: it stays, as it may be of a run that is not written again."""
        self._acknowledged(self._under_way[0])
        self._under_way.popleft()

    def _acknowledged(self, sent: paho.MQTTMessageInfo) -> None:
        waited = 0.0
        while not self._is_published(sent):
            self._session.check()
            if waited >= _SECONDS_MAX or self.context.stopping():
                raise Retriable(f"{self.config['mqtt.server.uri']} has not acknowledged a message")
            sent.wait_for_publish(0.2)
            waited += 0.2

    def _is_published(self, sent: paho.MQTTMessageInfo) -> bool:
        try:
            return sent.is_published()
        except (ValueError, RuntimeError) as problem:  # paho's: it was not sent, the queue is full
            raise Retriable(
                f"{self.config['mqtt.server.uri']}: a message was not sent: {problem}"
            ) from problem

    def _topic(self, topic: str, key: Any) -> str:
        name = str(self.config["mqtt.topic"]).replace("${topic}", topic)
        if "${key}" in name:
            if key is None:
                raise BadRecord("the record has no key, and mqtt.topic names ${key}")
            name = name.replace("${key}", key if isinstance(key, str) else as_json(key).decode().strip('"'))
        if not name or {"+", "#", "\0"} & set(name) or len(name.encode()) > 65_535:
            raise BadRecord(f"{name[:100]!r} is no topic to publish to")
        return name


def _payload(value: Any) -> bytes:
    payload = value if isinstance(value, bytes) else _text(value)
    if len(payload) > _PAYLOAD_BYTES_MAX:
        raise BadRecord(f"the value has {len(payload)} bytes; a message holds {_PAYLOAD_BYTES_MAX}")
    return payload


def _text(value: Any) -> bytes:
    if value is None:
        return b""
    return value.encode() if isinstance(value, str) else as_json(value)
