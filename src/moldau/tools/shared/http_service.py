"""Requests of commands to an HTTP service (a schema registry, Connect), by the standard library's client.

Settings are those of Confluent's clients (schemas/registry_settings.py). Of several addresses the first that
answers is used. What a service refuses is the caller's to word.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from moldau.schemas.registry_settings import RegistrySettingError, client_settings, tls_context
from moldau.tools.shared.errors import CommandError, UsageError

_RESPONSE_BYTES_MAX = 256 * 1024 * 1024
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")


class Unanswered(CommandError):
    """Nobody answers at any of the addresses."""

    def __init__(self, failures: Sequence[str]) -> None:
        super().__init__(f"nobody answers at {', '.join(failures)}")
        self.failures = failures


class NotJson(CommandError):
    """What answers is not the service."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"what answers at {url} does not speak JSON (HTTP status {status})")
        self.url = url
        self.status = status


class HttpService:
    """A service at one or several addresses."""

    def __init__(self, conf: Mapping[str, str], media_type: str, setting_option: str) -> None:
        """`setting_option`: the command's option for settings, for messages. UsageError: one is wrong."""
        try:
            settings = client_settings(conf)
        except RegistrySettingError as wrong:
            raise UsageError(str(wrong)) from None
        self.urls = [each.strip().rstrip("/") for each in str(settings["url"]).split(",")]
        self._timeout_seconds = float(settings["timeout"])
        self._headers = {
            "Accept": media_type,
            "Content-Type": media_type,
            **_authorization(settings, self.urls[0], setting_option),
        }
        self._tls: ssl.SSLContext | None = None
        self._settings = settings
        self._option = setting_option

    def ask(
        self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        """Status and JSON of the first address that answers. Unanswered, NotJson, CommandError."""
        given = {
            name: _text(value) for name, value in (query or {}).items() if value not in (None, False, "")
        }
        target = path + ("?" + urlencode(given, doseq=True) if given else "")
        failures = []
        for url in self.urls:
            try:
                return self._ask_one(url, method, target, body)
            except (OSError, http.client.HTTPException) as failure:
                advice = self._tls_advice(url, failure)
                if advice is not None:
                    raise CommandError(f"{shown(url)} {advice}") from None
                why = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
                failures.append(f"{shown(url)} ({why})")
        raise Unanswered(failures)

    def _ask_one(self, url: str, method: str, target: str, body: Any) -> tuple[int, Any]:
        parts = urlsplit(url)
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                parts.hostname or "",
                parts.port or 443,
                timeout=self._timeout_seconds,
                context=self._context(),
            )
        else:
            connection = http.client.HTTPConnection(
                parts.hostname or "", parts.port or 80, timeout=self._timeout_seconds
            )
        with contextlib.closing(connection):
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, parts.path.rstrip("/") + target, content, self._headers)
            response = connection.getresponse()
            received = response.read(_RESPONSE_BYTES_MAX)
        try:
            return response.status, json.loads(received) if received else None
        except ValueError:
            raise NotJson(shown(url), response.status) from None

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            try:
                self._tls = tls_context(self._settings)
            except RegistrySettingError as wrong:
                raise UsageError(str(wrong)) from None
        return self._tls

    def _tls_advice(self, url: str, failure: Exception) -> str | None:
        """What is wrong between here and who answers with TLS; None: something else."""
        if not url.startswith("https://"):
            return None
        if isinstance(failure, ssl.SSLCertVerificationError):
            return (
                f"has a certificate that is not trusted here ({failure.verify_message}): name the authority "
                f"that signed it with {self._option} ssl.ca.location=FILE (PEM), and the host by a name of "
                "the certificate"
            )
        reason = getattr(failure, "reason", None) or ""
        if reason in _NO_TLS:
            return "does not speak TLS: write http:// instead"
        # The alert may be lost when the connection is closed behind it.
        was_closed = isinstance(failure, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError)
        if "CERTIFICATE" in reason or (was_closed and "ssl.certificate.location" not in self._settings):
            return (
                "closes the connection, as one does that asks for a client's certificate: show yours with "
                f"{self._option} ssl.certificate.location=FILE {self._option} ssl.key.location=FILE (PEM)"
            )
        return None


def path_part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe=":")


def _authorization(settings: Mapping[str, Any], url: str, option: str) -> dict[str, str]:
    user_info = settings.get("basic.auth.user.info")
    parts = urlsplit(url)
    if user_info is None and parts.username:
        user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    if user_info is not None:
        return {"Authorization": "Basic " + base64.b64encode(str(user_info).encode()).decode()}
    fields = settings.get("bearer.auth.custom.provider.function")
    if fields is not None:
        return {"Authorization": f"Bearer {fields({})['bearer.auth.token']}"}
    if settings.get("bearer.auth.credentials.source"):
        raise UsageError(
            "bearer.auth.credentials.source=OAUTHBEARER is for programs: fetch the token, and pass it with "
            f"{option} bearer.auth.token=TOKEN"
        )
    return {}


def _text(value: Any) -> str | list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    return "true" if value is True else str(value)


def shown(url: str) -> str:
    """An address without its user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
