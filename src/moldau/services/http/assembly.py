"""From a service's settings: its login, its TLS, its server."""

import ssl

from starlette.types import ASGIApp

from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.tls.contexts import server_context
from moldau.common.credentials.tls.options import tls_options
from moldau.common.settings.rows import SettingError
from moldau.services.http.connections import ConnectionLimits
from moldau.services.http.login import LoginGate
from moldau.services.http.server import HttpServer
from moldau.services.http.settings import HttpSettingsPart, listeners_of


def gate_of(settings: HttpSettingsPart) -> LoginGate:
    """Who is let in. SettingError."""
    check_token = None
    if settings.moldau_http_jwks_url:
        from moldau.services.http.signed_tokens import signed_token_check

        check_token = signed_token_check(settings)
    return LoginGate(settings, check_token)


def server_of(application: ASGIApp, settings: HttpSettingsPart, default_port: int) -> HttpServer:
    """The server on the addresses of `listeners`. SettingError."""
    listeners = listeners_of(settings.listeners, default_port)
    tls = _tls(settings) if any(each.scheme == "https" for each in listeners) else None
    idle_seconds = settings.idle_timeout_ms / 1000
    limits = ConnectionLimits(
        head_bytes_max=settings.max_request_header_size,
        head_seconds=min(10.0, idle_seconds),
        idle_seconds=idle_seconds,
        send_seconds=settings.moldau_http_send_timeout_ms / 1000,
        connections_max=settings.server_connection_limit,
    )
    graceful_seconds = settings.shutdown_graceful_ms / 1000
    return HttpServer(application, listeners, tls=tls, limits=limits, graceful_seconds=graceful_seconds)


def _tls(settings: HttpSettingsPart) -> ssl.SSLContext:
    def get(name: str) -> object:
        if name == "ssl.client.auth":
            wanted = settings.ssl_client_authentication.lower()
            return "required" if settings.ssl_client_auth and wanted == "none" else wanted
        return settings.get_or_none(name)

    try:
        return server_context(tls_options(get))
    except CredentialsError as error:
        raise SettingError("ssl.keystore.location", str(error)) from None
