"""Who asks: a name and password (Basic), a token (Bearer), or the certificate of a TLS client.

    users file     name: password, role, role      as Jetty's property file, which Confluent's services read
                   name:{SHA}...                   as htpasswd -s writes it
    tokens file    token: name, role, role

A password is written as it is, or as MD5:, SHA256: (hexadecimal) or {SHA} (base64) of it. The files are read
again when they change; one that cannot be read then leaves what was read before. A comparison takes the same
time for a name that is unknown. A login that is offered and wrong is 401, also where none is asked for; a
certificate counts if no Authorization header is sent.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias

from starlette.requests import Request

from moldau.common.credentials.principals import MappingError, PrincipalMapping
from moldau.common.credentials.tls.certificate import parse
from moldau.common.settings.rows import SettingError
from moldau.services.http.connections import PEER_CERTIFICATE
from moldau.services.http.context import ANONYMOUS, Principal
from moldau.services.http.problems import HttpProblem
from moldau.services.http.settings import HttpSettingsPart
from moldau.services.http.watched_file import WatchedFile

log = logging.getLogger("moldau.http")

_CREDENTIALS_CHARS_MAX = 8 * 1024


class Login(NamedTuple):
    """A user or a token: how the secret is compared, and whose it is."""

    method: str  # "", "MD5", "SHA256", "SHA"
    digest: bytes
    principal: Principal

    def fits(self, secret: str) -> bool:
        """Whether this is the secret."""
        return hmac.compare_digest(_digest(self.method, secret), self.digest)


_NOBODY = Login("", hashlib.sha256(b"nobody's password").digest(), ANONYMOUS)


class LoginFile:
    """The logins of a file, by name (users) or by the token's digest; read again when it changes."""

    def __init__(
        self, setting: str, path: str, *, tokens: bool, now_seconds: Callable[[], float] = time.monotonic
    ) -> None:
        """SettingError: the file cannot be read."""
        self._setting = setting
        self._path = path
        self._tokens = tokens
        self._file = WatchedFile(setting, path, self._parsed, now_seconds)

    def find(self, key: str) -> Login | None:
        """The login of a name, or of a token."""
        return self._file.get().get(_digest("", key).hex() if self._tokens else key)

    def _parsed(self, text: str) -> Mapping[str, Login]:
        found = {}
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                key, login = self._login(line, number)
                found[key] = login
        return found

    def _login(self, line: str, number: int) -> tuple[str, Login]:
        left, colon, rest = line.partition(":")
        right, *roles = (part.strip() for part in rest.split(","))
        left = left.strip()
        if not (colon and left and right):
            form = "token: name, role" if self._tokens else "name: password, role"
            raise SettingError(self._setting, f"{self._setting}={self._path}, line {number}: write `{form}`")
        if self._tokens:
            digest = _digest("", left)
            return digest.hex(), Login("", digest, Principal(right, frozenset(roles)))
        method, digest = self._secret(right, number)
        return left, Login(method, digest, Principal(left, frozenset(roles)))

    def _secret(self, written: str, number: int) -> tuple[str, bytes]:
        try:
            if written.startswith("{SHA}"):
                return "SHA", base64.b64decode(written[5:], validate=True)
            for method in ("MD5", "SHA256"):
                if written.startswith(f"{method}:"):
                    return method, bytes.fromhex(written.partition(":")[2])
        except ValueError:
            pass
        else:
            if not written.startswith(("$", "OBF:", "CRYPT:")):
                return "", _digest("", written)
        raise SettingError(
            self._setting,
            f"{self._setting}={self._path}, line {number}: a password is written as it is, or as MD5:, "
            "SHA256: (hexadecimal) or {SHA} (base64) of it",
        )


def _digest(method: str, secret: str) -> bytes:
    data = secret.encode("utf-8", "surrogateescape")
    if method == "MD5":
        return hashlib.md5(data, usedforsecurity=False).digest()
    if method == "SHA":
        return hashlib.sha1(data, usedforsecurity=False).digest()
    return hashlib.sha256(data).digest()


CheckToken: TypeAlias = Callable[[str], Awaitable[Principal | None]]
"""Whose a token is that no file has (a signed one); None: nobody's."""


class LoginGate:
    """Says who asks, by the settings of a service."""

    def __init__(self, settings: HttpSettingsPart, check_token: CheckToken | None = None) -> None:
        """SettingError: a file or rule cannot be read."""
        method = settings.authentication_method.upper()
        users, tokens = settings.moldau_http_users_file, settings.moldau_http_tokens_file
        self._users = LoginFile("moldau.http.users.file", users, tokens=False) if users else None
        self._tokens = LoginFile("moldau.http.tokens.file", tokens, tokens=True) if tokens else None
        self._check_token = check_token
        self._roles = frozenset(settings.authentication_roles)
        self._realm = settings.authentication_realm.replace('"', "")
        if method == "BASIC" and self._users is None:
            raise SettingError(
                "authentication.method", "authentication.method=BASIC needs moldau.http.users.file"
            )
        if method == "BEARER" and self._tokens is None and check_token is None:
            raise SettingError(
                "authentication.method",
                "authentication.method=BEARER needs moldau.http.tokens.file or moldau.http.jwks.url",
            )
        self._asked_for = (
            method != "NONE" or bool(self._users) or bool(self._tokens) or check_token is not None
        )
        try:
            self._mapping = PrincipalMapping(settings.ssl_principal_mapping_rules)
        except MappingError as error:
            raise SettingError("ssl.principal.mapping.rules", str(error)) from None

    @property
    def asks_everybody(self) -> bool:
        """Whether nobody is let in without a login."""
        return self._asked_for

    async def principal_of(self, request: Request) -> Principal:
        """HttpProblem 401: a login is asked for or offered, and is nobody's; 403: it lacks a role."""
        authorization = request.headers.get("authorization")
        if authorization is not None:
            principal = await self._of_header(authorization)
            if principal is None:
                raise self._unauthorized("the name and password, or the token, is nobody's")
        else:
            principal = self._of_certificate(request.scope.get(PEER_CERTIFICATE))
            if principal is None:
                if self._asked_for:
                    raise self._unauthorized("a login is needed: a user and password, or a token")
                return ANONYMOUS
        if "*" not in self._roles and not (principal.roles & self._roles):
            raise HttpProblem(403, f"User:{principal.name} has none of the roles that are let in")
        return principal

    async def _of_header(self, authorization: str) -> Principal | None:
        scheme, _, credentials = authorization.partition(" ")
        credentials = credentials.strip()
        if len(credentials) > _CREDENTIALS_CHARS_MAX:
            return None
        if scheme.lower() == "bearer":
            return await self._of_token(credentials)
        if scheme.lower() != "basic":
            return None
        if self._users is None:
            # No users are known. Clients may be configured with a password all the same: it is not looked at.
            return None if self._asked_for else ANONYMOUS
        try:
            name, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return None
        login = self._users.find(name)
        right = (login or _NOBODY).fits(password)
        return login.principal if login is not None and right and colon else None

    async def _of_token(self, token: str) -> Principal | None:
        login = self._tokens.find(token) if self._tokens is not None else None
        if login is not None:
            return login.principal
        if self._check_token is not None:
            return await self._check_token(token)
        return None if self._asked_for else ANONYMOUS

    def _of_certificate(self, certificate: bytes | None) -> Principal | None:
        if certificate is None:
            return None
        try:
            return Principal(self._mapping.name_of(parse(certificate).subject))
        except (MappingError, ValueError) as error:
            raise self._unauthorized(str(error)) from None

    def _unauthorized(self, why: str) -> HttpProblem:
        offered = []
        if self._users is not None or not self._asked_for:
            offered.append(f'Basic realm="{self._realm}"')
        if self._tokens is not None or self._check_token is not None:
            offered.append("Bearer")
        return HttpProblem(401, f"Unauthorized: {why}", headers={"WWW-Authenticate": ", ".join(offered)})
