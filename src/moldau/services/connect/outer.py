"""Around the worker's application: paths that a listener does not have, and headers of all responses.

admin.listeners               unset: /admin with all others; empty: nowhere; else there, and only there
response.http.headers.config  set X-Frame-Options: DENY, add Cache-Control: no-cache
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moldau.common.settings.rows import SettingError

_SETTING = "response.http.headers.config"
_NOT_FOUND = b'{"error_code":404,"message":"HTTP 404 Not Found"}'


class Header(NamedTuple):
    """What is done with one header."""

    action: str
    name: bytes
    value: bytes


def parse_headers(text: str) -> tuple[Header, ...]:
    """The setting, taken apart. SettingError."""
    found = []
    for part in _parts(text):
        action, _, rest = part.strip().partition(" ")
        name, colon, value = rest.partition(":")
        if action.lower() not in ("set", "add", "setdate", "adddate") or not colon or not name.strip():
            raise SettingError(
                _SETTING, f"{_SETTING}: write `set NAME: VALUE` or `add NAME: VALUE`, not {part.strip()}"
            )
        if action.lower().endswith("date"):
            raise SettingError(_SETTING, f"{_SETTING}: {action} is not supported: use set or add")
        found.append(
            Header(action.lower(), name.strip().lower().encode("latin-1"), value.strip().encode("latin-1"))
        )
    return tuple(found)


def _parts(text: str) -> list[str]:
    """Commas outside of double quotes separate headers."""
    parts, quoted = [""], False
    for sign in text:
        if sign == '"':
            quoted = not quoted
        elif sign == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return [each for each in parts if each.strip()]


def with_headers(app: ASGIApp, headers: tuple[Header, ...]) -> ASGIApp:
    """The application with these headers on all responses."""
    if not headers:
        return app

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                rows = list(message["headers"])
                for each in headers:
                    if each.action == "set":
                        rows = [row for row in rows if row[0].lower() != each.name]
                    rows.append((each.name, each.value))
                message = {**message, "headers": rows}
            await send(message)

        await app(scope, receive, sent)

    return wrapped


def limited(app: ASGIApp, is_served: Callable[[str], bool]) -> ASGIApp:
    """The application without the paths that are not served here."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_served(scope["path"]):
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_NOT_FOUND))]
            await send({"type": "http.response.start", "status": 404, "headers": headers})
            await send({"type": "http.response.body", "body": _NOT_FOUND})
            return
        await app(scope, receive, send)

    return wrapped


def is_admin(path: str) -> bool:
    """Whether a path is one of administration."""
    return path == "/admin" or path.startswith("/admin/")
