"""An instance of the registry: its service, application and listeners.

    async with serve_registry(parse_registry_settings(texts)) as running: ...

Addresses are taken first, since the other instances are told them; requests are answered when the topic has
been read. Between instances only one address counts: host.name and host.port, else the listener's own, else
(where it listens on every interface) this machine's name.
"""

import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from moldau.services.http.application import Application
from moldau.services.http.assembly import gate_of, server_of
from moldau.services.http.rights import Rights
from moldau.services.http.server import HttpServer, in_own_thread
from moldau.services.registry.app import registry_application
from moldau.services.registry.election.identity import Identity
from moldau.services.registry.forwarding import Forwarder
from moldau.services.registry.service import RegistryService
from moldau.services.registry.settings import ParsedSettings, RegistrySettings

log = logging.getLogger("moldau.registry")

DEFAULT_PORT = 8081
_EVERYWHERE = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Running:
    """An instance that answers."""

    service: RegistryService
    application: Application
    server: HttpServer

    @property
    def url(self) -> str:
        """Its first address."""
        return self.server.url


@asynccontextmanager
async def serve_registry(parsed: ParsedSettings, *, is_read_only: bool = False) -> AsyncIterator[Running]:
    """A running instance. SettingError, ListenError; RegistryProblem: the brokers or the topic."""
    settings = parsed.settings
    for warning in parsed.warnings:
        log.warning("%s", warning)
    # What can be wrong with files and settings is said before anything is started.
    gate, rights = gate_of(settings), Rights.from_file(settings.moldau_http_rights_file)
    forward = Forwarder(settings)
    holder: list[Application] = []

    async def application(scope: object, receive: object, send: object) -> None:
        await holder[0](scope, receive, send)  # type: ignore[arg-type]

    server = server_of(application, settings, DEFAULT_PORT)
    server.bind()
    identity = identity_of(settings, server.addresses)
    service = RegistryService(settings, parsed.client, identity, read_only=is_read_only)
    try:
        await in_own_thread(service.instance.start)
        found = registry_application(
            service, settings, forward=forward, gate=gate, rights=rights, is_read_only=is_read_only
        )
        holder.append(found)
        await server.start()
        try:
            yield Running(service, found, server)
        finally:
            found.ending.set()
            await server.stop()
            found.close()
    finally:
        server.release()
        await in_own_thread(service.instance.close)


def identity_of(settings: RegistrySettings, addresses: tuple[str, ...]) -> Identity:
    """How other instances reach this one."""
    scheme = settings.inter_instance_protocol.lower()
    chosen = next((each for each in addresses if each.startswith(f"{scheme}://")), addresses[0])
    parts = urlsplit(chosen)
    host = settings.host_name or parts.hostname or ""
    if host in _EVERYWHERE:
        host = socket.gethostname()
    port = settings.host_port or parts.port or DEFAULT_PORT
    return Identity(host, port, settings.leader_eligibility, parts.scheme)
