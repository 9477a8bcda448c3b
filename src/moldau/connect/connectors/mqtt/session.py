"""One MQTT connection, kept up by paho-mqtt's thread; what the server refuses reaches the task's thread as
an error.

    connecting ──> up ──> down ──> up ...      paho connects again by itself, with back-off
                   │
                refused (login, rights, client id): ConnectError at the next `check`
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from moldau.connect.connectors.mqtt.settings import address_of
from moldau.connect.errors import ConnectError, Retriable

_SESSION_EXPIRY_SECONDS = 7 * 24 * 3600
"""How long a server keeps what comes while the connector is away."""
_MAY_SUCCEED_LATER = frozenset({"Server unavailable", "Server busy", "Quota exceeded", "Use another server"})


class Session:
    """A named session; `client` is paho's."""

    def __init__(self, settings: Mapping[str, Any], name: str, *, clean: bool, at_a_time: int) -> None:
        """`at_a_time`: how many messages the server may send unacknowledged (MQTT 5). ConnectError about
        files."""
        self._settings = settings
        self._name = name
        self._clean = clean
        self._at_a_time = at_a_time
        self._five = settings["mqtt.version"] == "5"
        self._up = threading.Event()
        self._refused: str | None = None
        self._lost: str | None = None
        self._connected: Callable[[], object] = lambda: None
        self.connections = 0
        """How often it was connected: what a server sent before the last time is sent again."""
        self.client = self._made()

    def open(self, connected: Callable[[], object] = lambda: None) -> None:
        """Connect and wait for the server's word; `connected` is called each time it is up. Retriable,
        ConnectError."""
        self._connected = connected
        host, port, _ = address_of(self._settings["mqtt.server.uri"])
        more: dict[str, Any] = {}
        if self._five:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.ReceiveMaximum = self._at_a_time
            if not self._clean:
                properties.SessionExpiryInterval = _SESSION_EXPIRY_SECONDS
            more = {"clean_start": self._clean, "properties": properties}
        try:
            self.client.connect(host, port, self._settings["mqtt.keepalive.interval.seconds"], **more)
        except (OSError, ValueError) as problem:
            raise Retriable(f"{self._settings['mqtt.server.uri']} cannot be reached: {problem}") from problem
        self.client.loop_start()
        seconds = self._settings["mqtt.connect.timeout.seconds"]
        if not self._up.wait(seconds):
            self.check()
            raise Retriable(f"{self._settings['mqtt.server.uri']} did not answer within {seconds} s")
        self.check()

    def check(self) -> None:
        """ConnectError if the server has refused; Retriable while the connection is down."""
        if self._refused:
            raise ConnectError(f"{self._settings['mqtt.server.uri']} refuses the session: {self._refused}")
        if self.connections and not self._up.is_set():
            raise Retriable(f"{self._settings['mqtt.server.uri']}: the connection is lost: {self._lost}")

    def close(self) -> None:
        """Disconnect; the server keeps a session that is not clean."""
        self.client.disconnect()
        self.client.loop_stop()

    def _made(self) -> paho.Client:
        protocol = paho.MQTTv5 if self._five else paho.MQTTv311
        clean = None if self._five else self._clean
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            self._name,
            clean_session=clean,
            protocol=protocol,
            manual_ack=True,
        )
        if self._settings["mqtt.username"]:
            client.username_pw_set(self._settings["mqtt.username"], self._settings["mqtt.password"])
        if address_of(self._settings["mqtt.server.uri"])[2]:
            client.tls_set_context(self._tls())
        client.connect_timeout = self._settings["mqtt.connect.timeout.seconds"]
        client.reconnect_delay_set(1, 60)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        return client

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._settings["mqtt.ssl.ca.location"])
            if self._settings["mqtt.ssl.certificate.location"]:
                context.load_cert_chain(self._settings["mqtt.ssl.certificate.location"])
        except (OSError, ssl.SSLError) as problem:
            raise ConnectError(f"mqtt.ssl: {problem}") from None
        return context

    def _on_connect(self, client: paho.Client, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            if str(reason) in _MAY_SUCCEED_LATER:
                self._lost = str(reason)
                return
            self._refused = str(reason)
            self._up.set()  # who waits shall hear it
            client.disconnect()
            return
        self.connections += 1
        self._connected()
        self._up.set()

    def _on_disconnect(self, client: paho.Client, data: Any, flags: Any, reason: Any, more: Any) -> None:
        if not self._refused:
            self._lost = str(reason)
            self._up.clear()
