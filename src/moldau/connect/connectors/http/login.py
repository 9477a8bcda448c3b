"""Logins of HTTP clients: basic, bearer, and OAuth 2 with client credentials (RFC 6749, section 4.4)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import httpx

from moldau.connect.errors import ConnectError, Retriable

_EARLY_SECONDS = 30.0
"""A token is fetched anew so long before it ends."""


class BearerAuth(httpx.Auth):
    """A token that does not change."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class ClientCredentials(httpx.Auth):
    """A token from a token endpoint, kept until shortly before it ends; fetched anew once after a 401."""

    def __init__(
        self,
        url: str,
        client_id: str,
        secret: str,
        scope: str | None,
        send: Callable[[httpx.Request], httpx.Response],
        monotonic: Callable[[], float],
    ) -> None:
        """`send` brings the token endpoint's answer."""
        self._send = send
        self._url = url
        self._id = client_id
        self._secret = secret
        self._scope = scope
        self._monotonic = monotonic
        self._token: str | None = None
        self._good_until = 0.0

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Fetch a token where none is good, then send. ConnectError, Retriable about the token endpoint."""
        fresh = False
        if self._token is None or self._monotonic() >= self._good_until:
            self._fetch()
            fresh = True
        request.headers["Authorization"] = f"Bearer {self._token}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and not fresh:
            self._fetch()
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _token_request(self) -> httpx.Request:
        form = {"grant_type": "client_credentials"}
        if self._scope:
            form["scope"] = self._scope
        request = httpx.Request("POST", self._url, data=form)
        for part in httpx.BasicAuth(self._id, self._secret).auth_flow(request):
            return part
        raise AssertionError

    def _fetch(self) -> None:
        response = self._send(self._token_request())
        if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise Retriable(f"the token endpoint {self._url} answered {response.status_code}")
        try:
            answer = response.json() if response.status_code == httpx.codes.OK else {}
            token, seconds = answer.get("access_token"), float(answer.get("expires_in") or 3600)
        except (ValueError, AttributeError, TypeError):
            token, seconds = None, 0.0
        if not isinstance(token, str):
            raise ConnectError(
                f"the token endpoint {self._url} gave no token (status {response.status_code}): look at "
                "oauth2.client.id, oauth2.client.secret and oauth2.client.scope"
            )
        self._token = token
        self._good_until = self._monotonic() + seconds - _EARLY_SECONDS


def login_of(
    settings: Mapping[str, Any],
    send: Callable[[httpx.Request], httpx.Response],
    monotonic: Callable[[], float],
) -> httpx.Auth | None:
    """What `auth.type` chooses; `send` is for the token endpoint."""
    match settings["auth.type"].upper():
        case "BASIC":
            return httpx.BasicAuth(settings["connection.user"] or "", settings["connection.password"] or "")
        case "BEARER":
            return BearerAuth(settings["bearer.token"] or "")
        case "OAUTH2":
            return ClientCredentials(
                settings["oauth2.token.url"] or "",
                settings["oauth2.client.id"] or "",
                settings["oauth2.client.secret"] or "",
                settings["oauth2.client.scope"],
                send,
                monotonic,
            )
    return None
