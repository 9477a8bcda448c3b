"""The health page of the broker that a command talks to, and of no other.

A broker's HTTP port is one of its settings (moldau.http.listener), which DescribeConfigs tells: so the page
is found without being named, and another broker's page on this machine is not taken for it. A page that is
bound to loopback is reached on the broker's own machine only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.tools.shared.errors import CommandError

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

SETTING = "moldau.http.listener"
_LOOPBACK = ("127.", "localhost", "::1", "[::1]")
_ANY = ("", "0.0.0.0", "::", "[::]")
_DESCRIBE_CONFIGS_VERSION, _METADATA_VERSION, _BROKER = 1, 5, 4


def own_health(connection: Connection) -> dict[str, Any] | None:
    """The health document of the first broker that answers at a bootstrap address; None if not found."""
    from moldau.tools.commands.status.health_page import HTTP_TIMEOUT_SECONDS, HealthRefused, ask_health

    http = own_http(connection)
    if not http:
        return None
    try:
        seconds = min(HTTP_TIMEOUT_SECONDS, connection.question_seconds)
        health = ask_health(http, connection.extra_settings, seconds)
    except (HealthRefused, CommandError):
        return None
    return health if health is not None and serves(health, connection.addresses) else None


def own_http(connection: Connection) -> str:
    """HOST:PORT (https://HOST:PORT with TLS) of that broker's page; "" if it has none, or does not tell."""
    from moldau.common.protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )
    from moldau.common.protocol.messages.metadata import MetadataRequest

    for address in connection.addresses:
        try:
            metadata = connection.ask(address, MetadataRequest(topics=[]), _METADATA_VERSION)
            named = [each for each in metadata.brokers if each.port == address[1]] or metadata.brokers
            if not named:
                return ""
            broker = named[0]
            keys = [SETTING, "moldau.http.security.protocol"]
            resource = DescribeConfigsResource(
                resource_type=_BROKER, resource_name=str(broker.node_id), configuration_keys=keys
            )
            request = DescribeConfigsRequest(resources=[resource])
            answer = connection.ask((broker.host, broker.port), request, _DESCRIBE_CONFIGS_VERSION)
        except CommandError:
            continue
        found = {each.name: each.value or "" for each in answer.results[0].configs}
        return _reachable(found.get(SETTING, ""), broker.host, found.get(keys[1], "") == "SSL")
    return ""


def _reachable(listener: str, broker_host: str, has_tls: bool) -> str:
    host, colon, port = listener.rpartition(":")
    if not colon or not port.isdigit() or port == "0":
        return ""
    if host.startswith(_LOOPBACK) and not broker_host.startswith(_LOOPBACK):
        return ""
    return f"{'https://' if has_tls else ''}{broker_host if host in _ANY else host}:{port}"


def serves(health: dict[str, Any], addresses: list[tuple[str, int]]) -> bool:
    """Whether the page is that of a broker that listens at one of the ports; true if it does not tell."""
    told = health.get("listeners")
    ports = {str(each).rpartition(":")[2] for each in told.values()} if isinstance(told, dict) else set()
    return not ports or any(str(port) in ports for _, port in addresses)
