"""Parses the listener lists: `listeners`, `advertised.listeners`, `listener.security.protocol.map`.

    PLAINTEXT://127.0.0.1:9092,OUTSIDE://:9093,IPV6://[::1]:9094

Each is name://host:port; an empty host means every interface.

Listeners of a KRaft controller (`controller.listener.names`) are left out, so that Kafka's sample
server.properties works.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.rows import SettingError

_FORM = re.compile(r"^\s*([A-Za-z0-9_.-]+)://(?:\[([^\]]*)\]|([^:/\s]*)):(\d+)\s*$")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    """One listener: name, security protocol, host ("" for every interface) and port (0 for any free one)."""

    name: str
    protocol: str
    host: str
    port: int


def listeners(settings: BrokerSettings) -> tuple[Listener, ...]:
    """The broker's listeners. SettingError if they are invalid or cannot be served."""
    found = _served("listeners", settings.listeners, settings)
    if not found:
        raise SettingError(
            "listeners", "listeners names no listener for clients, for example PLAINTEXT://127.0.0.1:9092"
        )
    ports = [(listener.host, listener.port) for listener in found if listener.port != 0]
    if len(set(ports)) < len(ports):
        raise SettingError("listeners", f"two listeners share an address: {','.join(settings.listeners)}")
    return found


def advertised_listeners(settings: BrokerSettings) -> tuple[Listener, ...] | None:
    """The addresses for clients, if set separately from the listeners. SettingError if they are invalid."""
    if not settings.advertised_listeners:
        return None
    known = {listener.name for listener in listeners(settings)}
    found = _served("advertised.listeners", settings.advertised_listeners, settings)
    for listener in found:
        if listener.name not in known:
            raise SettingError(
                "advertised.listeners",
                f"advertised.listeners names {listener.name}, which is not among the listeners "
                f"({', '.join(sorted(known))})",
            )
        if listener.host in ("", "0.0.0.0", "::"):
            raise SettingError(
                "advertised.listeners",
                "advertised.listeners must name a host that clients can reach; "
                f"{listener.host or 'nothing'} is none",
            )
    return found


def inter_broker_listener(settings: BrokerSettings) -> str | None:
    """The name of the listener for connections between brokers; None: the first one of each broker.

    It is `inter.broker.listener.name`, or the one named after `security.inter.broker.protocol`, as in
    Kafka; only the default, PLAINTEXT, may be the name of no listener. SettingError if it is no listener of
    this broker.
    """
    name, setting = settings.inter_broker_listener_name, "inter.broker.listener.name"
    known = [listener.name for listener in listeners(settings)]
    if name is None:
        name, setting = settings.security_inter_broker_protocol, "security.inter.broker.protocol"
        if name == "PLAINTEXT" and name not in known:
            return None
    if name.upper() not in known:
        means = ", which means the listener of that name" if setting != "inter.broker.listener.name" else ""
        raise SettingError(setting, f"{setting} is {name}{means}, and the listeners are {', '.join(known)}")
    return name.upper()


def protocol_map(settings: BrokerSettings) -> dict[str, str]:
    """Security protocol by listener name."""
    protocols: dict[str, str] = {}
    for entry in settings.listener_security_protocol_map:
        name, colon, protocol = entry.partition(":")
        if not colon or protocol.strip().upper() not in _PROTOCOLS:
            raise SettingError(
                "listener.security.protocol.map",
                f"'{entry}' in listener.security.protocol.map is not NAME:PROTOCOL; "
                f"protocols are {', '.join(_PROTOCOLS)}",
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _served(name: str, entries: Sequence[str], settings: BrokerSettings) -> tuple[Listener, ...]:
    protocols = protocol_map(settings)
    controllers = {listener.upper() for listener in settings.controller_listener_names or ()}
    found: list[Listener] = []
    for entry in entries:
        match = _FORM.match(entry)
        if match is None or int(match[4]) > 65_535:
            raise SettingError(
                name, f"Invalid value {entry} for configuration {name}: expected NAME://host:port"
            )
        listener = match[1].upper()
        if listener in controllers:
            continue
        if listener not in protocols:
            raise SettingError(
                name,
                f"No security protocol defined for listener {listener}; add it to "
                "listener.security.protocol.map",
            )
        if any(listener == other.name for other in found):
            raise SettingError(name, f"the listener {listener} appears twice in {name}")
        found.append(
            Listener(
                listener, protocols[listener], match[2] if match[2] is not None else match[3], int(match[4])
            )
        )
    return tuple(found)
