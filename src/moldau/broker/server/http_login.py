"""A login for the HTTP port: a name and password (Basic, RFC 7617), or a token (Bearer, RFC 6750).

    moldau.http.users=prometheus:secret,ops:other     moldau.http.token=...

Where neither is set, every page is open. Where one is, all pages but `/health/live` ask for it: whoever
restarts a broker that hangs needs no password. A comparison takes the same time also with a name that is
unknown.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from hashlib import sha256

from moldau.broker.monitor.page import Ask, Page, Route, text_page
from moldau.common.settings.rows import SettingError

OPEN_PAGES = ("/health/live",)


class HttpLogins:
    """Who may read the pages."""

    def __init__(self, users: str | None, token: str | None) -> None:
        """`users`: name:password pairs, separated by commas."""
        self._users = {name: _digest(password) for name, password in users_of(users or "").items()}
        self._token = _digest(token) if token else None
        self._nobody = _digest("nobody's password, of no length that matters")

    @property
    def asked_for(self) -> bool:
        """Whether a login is asked for at all."""
        return bool(self._users) or self._token is not None

    def admits(self, ask: Ask) -> bool:
        """Whether the request's Authorization header is somebody's."""
        scheme, _, credentials = ask.headers.get("authorization", "").partition(" ")
        credentials = credentials.strip()
        if scheme.lower() == "bearer" and self._token is not None:
            return hmac.compare_digest(_digest(credentials), self._token)
        if scheme.lower() != "basic" or not self._users:
            return False
        try:
            name, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return False
        right = hmac.compare_digest(_digest(password), self._users.get(name, self._nobody))
        return right and bool(colon) and name in self._users


def guarded(routes: Mapping[str, Route], logins: Callable[[], HttpLogins]) -> Mapping[str, Route]:
    """The same pages behind a login."""

    def guard(route: Route) -> Route:
        def page(ask: Ask) -> Page:
            known = logins()
            if known.asked_for and not known.admits(ask):
                return text_page("this page needs a login: a user and password, or a token", 401)
            return route(ask)

        return page

    return {path: route if path in OPEN_PAGES else guard(route) for path, route in routes.items()}


def users_of(text: str) -> dict[str, str]:
    """The passwords by name, of name:password pairs separated by commas; SettingError (without the text)."""
    found: dict[str, str] = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        name, colon, password = pair.partition(":")
        if not (name and colon and password):
            raise SettingError(
                "moldau.http.users", "moldau.http.users is not name:password pairs, separated by commas"
            )
        found[name] = password
    return found


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()
