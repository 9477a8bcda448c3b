"""MQTT without a server: what is not acknowledged is not forgotten, and no session is left behind."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("paho.mqtt")

from sink_batches import json_batch, settings_of, sink_context

from moldau.connect import SourceContext
from moldau.connect.connectors.mqtt import sink as module
from moldau.connect.connectors.mqtt.session import Session
from moldau.connect.connectors.mqtt.sink import MqttSink
from moldau.connect.connectors.mqtt.source import MqttSource
from moldau.connect.errors import Retriable


class Sent:
    """A message that was handed over."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def is_published(self) -> bool:
        return self._server.answers

    def wait_for_publish(self, _: float) -> None:
        pass


class Server:
    """Takes messages, and acknowledges them or not; its connection can be down."""

    def __init__(self) -> None:
        self.answers = self.is_up = True
        self.client = self

    def publish(self, *_: Any) -> Sent:
        return Sent(self)

    def check(self) -> None:
        if not self.is_up:
            raise Retriable("the connection is lost")


def test_a_run_that_fails_leaves_no_earlier_message_without_an_answer(monkeypatch: Any) -> None:
    """After Retriable that run alone is written again; messages of the one before are waited for."""
    monkeypatch.setattr(module, "_UNDER_WAY_MAX", 2)
    server, one = Server(), MqttSink()
    one.config = settings_of(MqttSink, {"mqtt.server.uri": "tcp://localhost:1883"})
    one.context = sink_context(None)
    one._session = server  # type: ignore[assignment]
    one._under_way = module.deque()
    server.answers = False
    one.write(json_batch([{"id": 1}]), 0)
    server.is_up = True
    publish = server.publish

    def goes_down(*given: Any) -> Sent:
        server.is_up = False
        return publish(*given)

    server.publish = goes_down  # type: ignore[method-assign]
    with pytest.raises(Retriable):
        one.write(json_batch([{"id": 2}], first=1), 1)
    server.is_up = True
    assert len(one._under_way) == 2, "the first run's message is still waited for"
    server.answers = True
    one.flush()
    assert len(one._under_way) == 0


def test_a_session_that_cannot_be_opened_leaves_no_thread_behind(monkeypatch: Any) -> None:
    """Each attempt has the same name: two of them would take it from one another without end."""
    closed: list[str] = []

    def silent(self: Session, _: Any) -> None:
        raise Retriable("did not answer within 1 s")

    monkeypatch.setattr(Session, "open", silent)
    monkeypatch.setattr(Session, "close", lambda self: closed.append(self._name))
    source = MqttSource()
    settings = settings_of(MqttSource, {"mqtt.server.uri": "tcp://localhost:1", "mqtt.topics": ["a/#"]})
    source.start(settings, SourceContext("c", 0, lambda: False, lambda _: False, lambda: None))
    for _ in range(2):
        with pytest.raises(Retriable):
            next(iter(source.read({"topics": "a/#"}, None)))
    assert closed == ["moldau-c-0"] * 2
    source.stop()
