"""Asks a broker's HTTP port for its health, also where the port has TLS or wants a login.

    127.0.0.1:9640                 plain
    https://broker.example:9640    TLS; the authority is that of the client settings
                                   (ssl.truststore.location, ssl.ca.location), else the system's

A login comes from the environment, `MOLDAU_HTTP_LOGIN`: a command line can be read by everybody on a machine.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Mapping
from typing import Any

HTTP_TIMEOUT_SECONDS = 3.0
LOGIN_VARIABLE = "MOLDAU_HTTP_LOGIN"
_PAGE_BYTES_MAX = 16 * 1024 * 1024


class HealthRefused(Exception):
    """There is an HTTP port, and it does not show its health; the text says why and what to do."""


def page_url(http: str) -> str:
    """The URL of the health page at HOST:PORT, or at http:// or https://HOST:PORT."""
    base = http if http.startswith(("http://", "https://")) else f"http://{http}"
    return f"{base.rstrip('/')}/health"


def ask_health(
    http: str,
    client_settings: Mapping[str, str] | None = None,
    timeout_seconds: float = HTTP_TIMEOUT_SECONDS,
) -> dict[str, Any] | None:
    """The health document of the broker at `http`; None if no such page is there. HealthRefused."""
    from moldau.common.credentials.http_fetch import fetch

    url = page_url(http)
    try:
        answer = fetch(
            url,
            headers=_login(os.environ.get(LOGIN_VARIABLE, "")),
            timeout_seconds=timeout_seconds,
            bytes_max=_PAGE_BYTES_MAX,
            tls=_context(client_settings or {}) if url.startswith("https:") else None,
        )
    except ssl.SSLError as failure:
        reason = getattr(failure, "verify_message", "") or failure.reason or str(failure)
        raise HealthRefused(
            f"{url}: {reason}; name the authority of its certificate with -X ssl.ca.location=FILE"
        ) from None
    except OSError:
        return None
    if answer.status == 401:
        raise HealthRefused(
            f"{url} wants a login: set {LOGIN_VARIABLE} to NAME:PASSWORD, or to the token (moldau.http.token)"
        )
    try:
        document = json.loads(answer.body)  # a failing broker answers 503 and the same document
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _login(text: str) -> dict[str, str]:
    if not text:
        return {}
    if ":" in text:
        return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}
    return {"Authorization": f"Bearer {text}"}


def _context(client_settings: Mapping[str, str]) -> ssl.SSLContext:
    from moldau.common.credentials.client.options import client_security, is_supported
    from moldau.common.credentials.errors import CredentialsError
    from moldau.common.credentials.tls.contexts import client_context
    from moldau.tools.shared.errors import UsageError

    theirs = {
        name: value
        for name, value in client_settings.items()
        if name.startswith("ssl.") and is_supported(name)
    }
    try:
        security = client_security({**theirs, "security.protocol": "SSL"})
        assert security.tls is not None
        return client_context(security.tls)
    except CredentialsError as problem:
        raise UsageError(str(problem)) from None
