"""Who may do what: logins and their sessions, rights, and requests that come from another site.

    loopback, no login    everybody on the machine may look; changes only if the settings allow them
    a login               a session behind a cookie (HttpOnly, SameSite=Strict), or Basic for programs
    a change              must come from this site (Origin), by somebody who may; it leaves an audit line

Guesses are slowed: after ATTEMPTS_MAX wrong passwords a host or a name waits a minute.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request

from moldau.services.console.settings import ConsoleSettings
from moldau.services.http.context import ANONYMOUS, Principal
from moldau.services.http.login import LoginFile
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation, Rights

COOKIE = "moldau_console"
NOBODY = Principal("")
SESSIONS_MAX = 1_000
ATTEMPTS_MAX = 8
ATTEMPTS_SECONDS = 60.0
_COUNTED_MAX = 10_000
_SECRET_CHARS_MAX = 1_024
_NAME_CHARS_MAX = 256
_CHECKED_AT_ONCE = 4
"""Passwords that are tried at a time: guesses sent together gain no more than so many."""
_WAITING_MAX = 64
OPEN_PREFIXES = ("/static/", "/login", "/health/live")
_TOLD_TO_PROGRAMS = ("/metrics", "/health", "/health/ready")
"""No pages, though a browser may ask for them: without a login they are closed."""

CheckPassword = Callable[[str, str], Awaitable[Principal | None]]
"""Whose name and password these are; None: nobody's. HttpProblem: they cannot be checked now."""


class Session(NamedTuple):
    """A login that holds until a moment of the clock."""

    principal: Principal
    ends_at: float


class Sessions:
    """Sessions by the digest of their secret: what is in memory opens nothing."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def begin(self, principal: Principal) -> str:
        """A new session; its secret, for the cookie."""
        secret = secrets.token_urlsafe(32)
        self._sessions[_digest(secret)] = Session(principal, self._clock() + self._seconds)
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return secret

    def find(self, secret: str | None) -> Principal | None:
        """Whose session it is."""
        if not secret or len(secret) > _SECRET_CHARS_MAX:
            return None
        key = _digest(secret)
        found = self._sessions.get(key)
        if found is None:
            return None
        if found.ends_at <= self._clock():
            del self._sessions[key]
            return None
        return found.principal

    def end(self, secret: str | None) -> None:
        """Log out."""
        if secret:
            self._sessions.pop(_digest(secret[:_SECRET_CHARS_MAX]), None)


class Attempts:
    """Counts wrong passwords by host and by name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def check(self, *keys: str) -> None:
        """HttpProblem 429: too many of late."""
        for key in keys:
            since, count = self._counts.get(key, (0.0, 0))
            left = since + ATTEMPTS_SECONDS - self._clock()
            if count >= ATTEMPTS_MAX and left > 0:
                raise HttpProblem(
                    429,
                    f"Too many wrong passwords: try again in {int(left) + 1} seconds.",
                    headers={"Retry-After": str(int(left) + 1)},
                )

    def wrong(self, *keys: str) -> None:
        """One more."""
        now = self._clock()
        for key in keys:
            since, count = self._counts.pop(key, (now, 0))
            if now - since > ATTEMPTS_SECONDS:
                since, count = now, 0
            self._counts[key] = since, count + 1
        while len(self._counts) > _COUNTED_MAX:
            self._counts.popitem(last=False)


class Access:
    """The gate of the console, and what principals may do."""

    def __init__(
        self,
        settings: ConsoleSettings,
        login: str,
        check_password: CheckPassword | None,
        clock: Callable[[], float] = time.monotonic,
        current: Callable[[str], Principal | None] = Principal,
    ) -> None:
        """`login`: none, users or scram. `current`: who has this name now, with which roles; None: nobody any
        more, so that a session ends with its user. SettingError: a file cannot be read."""
        self.login = login
        self.sessions = Sessions(settings.moldau_console_session_ms / 1000, clock)
        self._attempts = Attempts(clock)
        self._check_password = check_password
        self._current = current
        self._checking = asyncio.Semaphore(_CHECKED_AT_ONCE)
        self._waiting = 0
        self._rights = Rights.from_file(settings.moldau_http_rights_file)
        self._allow_changes = settings.moldau_console_allow_changes
        self._editors = frozenset(each.removeprefix("User:") for each in settings.moldau_console_editors)

    # -- who -----------------------------------------------------------------------------------------------

    @property
    def asks_everybody(self) -> bool:
        """See Gate."""
        return self.login != "none"

    async def principal_of(self, request: Request) -> Principal:
        """See Gate: NOBODY for the pages that lead to the login. HttpProblem 401."""
        if request.method not in ("GET", "HEAD", "OPTIONS"):
            check_origin(request)
        if not self.asks_everybody:
            return ANONYMOUS
        found = self.sessions.find(request.cookies.get(COOKIE))
        if found is not None:
            found = self._current(found.name)
        if found is None and "authorization" in request.headers:
            found = await self._basic(request)
        if found is not None:
            return found
        path: str = request.scope["path"]
        if path.startswith(OPEN_PREFIXES) or _wants_page(request):
            return NOBODY
        raise HttpProblem(401, "a login is needed", headers={"WWW-Authenticate": 'Basic realm="moldau"'})

    async def _basic(self, request: Request) -> Principal | None:
        scheme, _, credentials = request.headers["authorization"].partition(" ")
        try:
            if scheme.lower() != "basic" or len(credentials) > 8 * _SECRET_CHARS_MAX:
                raise ValueError
            name, _, password = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            raise HttpProblem(401, "the login is no name and password (Basic)") from None
        return await self.log_in(request, name, password)

    async def log_in(self, request: Request, name: str, password: str) -> Principal:
        """Whose name and password these are. HttpProblem 401, 429, 503."""
        keys = f"host:{(request.scope.get('client') or ('',))[0]}", f"name:{name[:_NAME_CHARS_MAX]}"
        self._attempts.check(*keys)
        if self._waiting >= _WAITING_MAX:
            raise HttpProblem(503, "Too many logins are under way: try again.", headers={"Retry-After": "2"})
        self._waiting += 1
        try:
            async with self._checking:
                self._attempts.check(*keys)  # again: those before it may have been wrong
                found = await self._checked(name, password)
                if found is None:
                    self._attempts.wrong(*keys)
                    raise HttpProblem(401, "The name and password are nobody's.")
        finally:
            self._waiting -= 1
        return found

    async def _checked(self, name: str, password: str) -> Principal | None:
        if self._check_password is None or not 0 < len(name) <= _NAME_CHARS_MAX:
            return None
        return await self._check_password(name, password) if len(password) <= _SECRET_CHARS_MAX else None

    # -- what ----------------------------------------------------------------------------------------------

    def may(self, principal: Principal, operation: Operation, kind: Kind, name: str) -> bool:
        """Whether a principal may look at, or change, something."""
        if operation is not Operation.READ and not self.may_change(principal):
            return False
        return self._rights.may(principal, operation, kind, name)

    def may_change(self, principal: Principal) -> bool:
        """Whether a principal may change anything at all."""
        if not self.asks_everybody:
            return self._allow_changes
        if not self._rights.unlimited:
            return True
        return bool(self._editors & {"*", principal.name, *(f"role:{each}" for each in principal.roles)})

    def check(self, principal: Principal, operation: Operation, kind: Kind, name: str) -> None:
        """HttpProblem 403 with what would allow it."""
        if self.may(principal, operation, kind, name):
            return
        if operation is not Operation.READ and not self.may_change(principal):
            if not self.asks_everybody:
                raise HttpProblem(
                    403,
                    "This console is read-only. Start it with --allow-changes "
                    "(moldau.console.allow.changes).",
                )
            raise HttpProblem(
                403,
                f"{principal.name} may look only: moldau.console.editors or a file of rights lets users "
                "change things.",
            )
        raise HttpProblem(403, f"{principal.name} may not {operation} the {kind} {name}.")

    def readable(self, principal: Principal, kind: Kind) -> Callable[[str], bool] | None:
        """Which names a principal may see; None: all."""
        return None if self._rights.unlimited else self._rights.filter(principal, Operation.READ, kind)


def users_check(path: str) -> CheckPassword:
    """Passwords of a file of users. SettingError."""
    return users_of(path)[0]


def users_of(path: str) -> tuple[CheckPassword, Callable[[str], Principal | None]]:
    """Passwords of a file of users, and who is in it now. SettingError."""
    users = LoginFile("moldau.http.users.file", path, tokens=False)

    def current(name: str) -> Principal | None:
        login = users.find(name)
        return None if login is None else login.principal

    async def check(name: str, password: str) -> Principal | None:
        login = users.find(name)
        return login.principal if login is not None and login.fits(password) else None

    return check, current


def check_origin(request: Request) -> None:
    """HttpProblem 403: a browser sends this for a page of another site.

    Browsers send Origin with every request that is no GET; programs send none.
    """
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    if origin is not None:
        own = request.headers.get("host", "").lower()
        if urlsplit(origin).netloc.lower() == own and own:
            return
    elif site in (None, "same-origin"):
        return
    raise HttpProblem(403, "the request comes from a page of another site")


def _wants_page(request: Request) -> bool:
    path: str = request.scope["path"]
    return (
        request.method == "GET"
        and "text/html" in request.headers.get("accept", "")
        and not path.startswith("/api/")
        and not path.endswith(".json")
        and path not in _TOLD_TO_PROGRAMS
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
