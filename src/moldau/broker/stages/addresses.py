"""The addresses, bound before anything is written: a port in use leaves no new folder behind. Nothing is
accepted yet.
"""

import logging
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.server.exposure import exposures
from moldau.broker.server.listeners import Listeners
from moldau.broker.server.monitoring_port import MonitoringPort
from moldau.broker.stages.ground import Ground
from moldau.broker.stages.security import make_handshakes, make_tls, secure_http
from moldau.common.core.client_state import ClientState
from moldau.common.settings.listeners import listeners

if TYPE_CHECKING:
    from moldau.broker.server.http_tls import HttpTls

log = logging.getLogger("moldau.node")


class Addresses(NamedTuple):
    """The listeners of clients, and the port of health and metrics."""

    listeners: Listeners
    client_state: ClientState
    """What is kept for clients between requests, and its limit."""
    http_tls: "HttpTls | None"
    exposures: list[str]
    """What other machines reach without security."""


async def bind_addresses(ground: Ground, port: MonitoringPort) -> Addresses:
    """Bind all. AddressError, SettingError."""
    host, settings, stops = ground.host, ground.settings.now, ground.stops
    planned = listeners(settings)
    stops.add("monitoring", port.stop)
    port.bind()
    http_tls = await secure_http(host, settings, has_port=port.address is not None)
    if http_tls is not None:
        stops.add("TLS of the HTTP port", http_tls.close)
    client_state = ClientState(settings.moldau_client_state_max_bytes, host.clock)
    bound = Listeners(
        settings,
        client_state=client_state,
        network=host.network,
        clock=host.clock,
        timers=host.timers,
        seconds=host.seconds,
        response_room=ground.response_room,
        http_address=lambda: port.address,
        make_tls=lambda name, protocol: make_tls(host, name, protocol),
        make_handshakes=lambda: make_handshakes(host),
    )
    stops.add("addresses", bound.close)
    if http_tls is not None:
        bound.also_renewed.append(http_tls.tls)
    await bound.bind(planned)
    exposed = exposures(bound.all, has_authorizer=bool(ground.static.broker.authorizer_class_name))
    for exposure in exposed:
        log.warning("%s", exposure)
    return Addresses(bound, client_state, http_tls, exposed)
