"""One request to a schema registry: any of its paths, by the standard library's HTTP client.

The settings are Confluent's (schemas/registry_settings.py). Of several addresses the first that answers is
used. What the registry refuses becomes a sentence that ends with what to do.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from moldau.schemas.registry_settings import RegistrySettingError, client_settings, tls_context
from moldau.tools.shared.errors import CommandError, UsageError

_RESPONSE_BYTES_MAX = 256 * 1024 * 1024
_PAGE = 1_000
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")

_ADVICE = {
    401: "log in with -R basic.auth.user.info=NAME:PASSWORD or -R bearer.auth.token=TOKEN",
    40301: "log in as somebody who may (-R basic.auth.user.info=...), or ask for the right",
    40401: "`moldau schemas list` names the subjects; --deleted also those that were deleted",
    40402: "`moldau schemas show SUBJECT --versions` lists the versions",
    40403: "`moldau schemas list` shows what is registered",
    40404: "it was deleted before: add --permanent to delete it for good",
    40405: "delete it first without --permanent, then with it",
    40406: "it was deleted before: add --permanent to delete it for good",
    40407: "delete it first without --permanent, then with it",
    409: "`moldau schemas check` names each difference; a default makes a new field readable",
    42205: "`moldau schemas show SUBJECT` shows its mode; a registry may also be read-only as a whole",
    42206: "other schemas refer to it: delete those first",
    50003: "the primary instance cannot be reached: see /health of each instance",
    50004: "no instance may write at the moment: see /health of each instance",
}


class RegistryRefusal(CommandError):
    """The registry refused a request; `error_code` is its code."""

    def __init__(self, error_code: int, message: str) -> None:
        advice = _ADVICE.get(error_code)
        sentence = f"the registry refused: {message.rstrip('.')} ({error_code})"
        super().__init__(f"{sentence}; {advice}" if advice else sentence)
        self.error_code = error_code


class Registry:
    """A registry at one or several addresses."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        """UsageError: a setting is wrong."""
        try:
            settings = client_settings(conf)
        except RegistrySettingError as wrong:
            raise UsageError(str(wrong)) from None
        self.urls = [each.strip().rstrip("/") for each in str(settings["url"]).split(",")]
        self._timeout_seconds = float(settings["timeout"])
        self._headers = {
            "Accept": "application/vnd.schemaregistry.v1+json",
            "Content-Type": "application/vnd.schemaregistry.v1+json",
            **_authorization(settings, self.urls[0]),
        }
        self._tls: ssl.SSLContext | None = None
        self._settings = settings

    def get(self, path: str, **query: Any) -> Any:
        """GET. RegistryRefusal, CommandError."""
        return self.ask("GET", path, None, query)

    def post(self, path: str, body: Any, **query: Any) -> Any:
        """POST. RegistryRefusal, CommandError."""
        return self.ask("POST", path, body, query)

    def delete(self, path: str, **query: Any) -> Any:
        """DELETE. RegistryRefusal, CommandError."""
        return self.ask("DELETE", path, None, query)

    def pages(self, path: str, **query: Any) -> Iterator[Any]:
        """The rows of a list, fetched a page at a time."""
        offset = 0
        while True:
            rows = self.get(path, **query, offset=offset, limit=_PAGE)
            yield from rows
            # A registry that knows no paging gives all at once, and again whenever it is asked.
            if len(rows) != _PAGE:
                return
            offset += len(rows)

    def ask(self, method: str, path: str, body: Any, query: Mapping[str, Any]) -> Any:
        """The JSON of the first address that answers. RegistryRefusal, CommandError."""
        given = {name: _text(value) for name, value in query.items() if value not in (None, False, "")}
        target = path + ("?" + urlencode(given) if given else "")
        failures = []
        for url in self.urls:
            try:
                return self._ask_one(url, method, target, body)
            except (OSError, http.client.HTTPException) as failure:
                advice = self._tls_advice(url, failure)
                if advice is not None:
                    raise CommandError(f"{_shown(url)} {advice}") from None
                why = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
                failures.append(f"{_shown(url)} ({why})")
        raise CommandError(
            f"no schema registry answers at {', '.join(failures)}: start one with `moldau registry` or "
            "`moldau serve --with registry`, or name it with --schema-registry"
        )

    def _ask_one(self, url: str, method: str, target: str, body: Any) -> Any:
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
            value = json.loads(received) if received else None
        except ValueError:
            raise CommandError(
                f"what answers at {_shown(url)} is no schema registry (HTTP status {response.status}): name "
                "one with --schema-registry"
            ) from None
        if response.status >= 300:
            raise _refusal(response.status, value)
        return value

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
                "that signed it with -R ssl.ca.location=FILE (PEM), and the host by a name of the certificate"
            )
        reason = getattr(failure, "reason", None) or ""
        if reason in _NO_TLS:
            return "does not speak TLS: write http:// instead"
        # The alert may be lost when the connection is closed behind it.
        was_closed = isinstance(failure, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError)
        if "CERTIFICATE" in reason or (was_closed and "ssl.certificate.location" not in self._settings):
            return (
                "closes the connection, as one does that asks for a client's certificate: show yours with "
                "-R ssl.certificate.location=FILE -R ssl.key.location=FILE (PEM)"
            )
        return None


def path_part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe=":")


def _refusal(status: int, value: Any) -> RegistryRefusal:
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        code = value.get("error_code")
        return RegistryRefusal(code if isinstance(code, int) else status, value["message"])
    return RegistryRefusal(status, f"HTTP status {status}")


def _authorization(settings: Mapping[str, Any], url: str) -> dict[str, str]:
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
        raise UsageError("bearer.auth.credentials.source=OAUTHBEARER is for programs: fetch the token, and "
                         "pass it with -R bearer.auth.token=TOKEN")  # fmt: skip
    return {}


def _text(value: Any) -> str:
    return "true" if value is True else str(value)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
