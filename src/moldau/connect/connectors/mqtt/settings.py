"""What the MQTT source and sink share; the names are those of Confluent's MQTT connectors."""

from __future__ import annotations

from urllib.parse import urlsplit

from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType

_SCHEMES = {"tcp": 1883, "mqtt": 1883, "ssl": 8883, "mqtts": 8883}
_CONNECTION = "Connection"


def address_of(uri: str) -> tuple[str, int, bool]:
    """Host, port, and whether TLS is spoken. ValueError."""
    parts = urlsplit(uri)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError(f"{uri} is no address of an MQTT server: write tcp://HOST:1883 or ssl://HOST:8883")
    return parts.hostname, parts.port or _SCHEMES[parts.scheme], parts.scheme in ("ssl", "mqtts")


def _check_address(uri: str) -> str | None:
    try:
        address_of(uri)
    except ValueError as problem:
        return str(problem)
    return None


MQTT_SETTINGS = (
    Setting(
        "mqtt.server.uri",
        SettingType.STRING,
        "The server: tcp://HOST:1883 or ssl://HOST:8883.",
        REQUIRED,
        Importance.HIGH,
        _CONNECTION,
        check=_check_address,
    ),
    Setting("mqtt.username", SettingType.STRING, "With a login.", None, Importance.HIGH, _CONNECTION),
    Setting("mqtt.password", SettingType.PASSWORD, "With a login.", None, Importance.HIGH, _CONNECTION),
    Setting(
        "mqtt.client.id",
        SettingType.STRING,
        "The session's name at the server; none: made from the connector's. A number is added.",
        None,
        Importance.MEDIUM,
        _CONNECTION,
    ),
    Setting(
        "mqtt.version",
        SettingType.STRING,
        "The protocol.",
        "5",
        Importance.LOW,
        _CONNECTION,
        choices=("5", "3.1.1"),
    ),
    Setting(
        "mqtt.connect.timeout.seconds",
        SettingType.INT,
        "How long a connection is waited for.",
        30,
        Importance.LOW,
        _CONNECTION,
    ),
    Setting(
        "mqtt.keepalive.interval.seconds",
        SettingType.INT,
        "After so long without a message the connection is tried.",
        60,
        Importance.LOW,
        _CONNECTION,
    ),
    Setting(
        "mqtt.ssl.ca.location",
        SettingType.STRING,
        "A PEM file with the authorities to trust; none: the system's.",
        None,
        Importance.LOW,
        _CONNECTION,
    ),
    Setting(
        "mqtt.ssl.certificate.location",
        SettingType.STRING,
        "A PEM file with the client's certificate and key.",
        None,
        Importance.LOW,
        _CONNECTION,
    ),
)
