"""SASL/OAUTHBEARER (RFC 7628): the client sends a token that an issuer has signed.

A client's message is small and is parsed here; the token is checked on a worker (credentials/jwt/), with the
issuer's keys. A token of an unknown key has the keys loaded again, once (key_source.py). A refused token is
answered with `invalid_token`, as the RFC asks for; the client's next message ends the login.

The session ends with the token (KIP-368). Extensions that a client may send are not used.
"""

from collections.abc import Awaitable, Callable

from moldau.broker.security.login.steps import Accepted, Challenge, Denied, Step
from moldau.common.core.clock import Clock
from moldau.common.core.waiting import Answer
from moldau.common.credentials.jwt.checks import CheckedToken, Rules, check_token
from moldau.common.credentials.jwt.key_source import KeySource
from moldau.common.credentials.jwt.refused import TokenRefused, UnknownKey
from moldau.common.credentials.oauthbearer import (
    INVALID_TOKEN,
    SEPARATOR,
    OAuthSyntaxError,
    parse_client_message,
)

Check = Callable[[str], Awaitable[CheckedToken]]
"""Checks a token; TokenRefused."""
Run = Callable[[Callable[[], CheckedToken]], Awaitable[CheckedToken]]


def signed_tokens(source: KeySource, rules: Rules, clock: Clock, run: Run) -> Check:
    """Checks tokens with the keys of an issuer. `run` calls a blocking function on a worker."""

    async def check(token: str) -> CheckedToken:
        if not len(source.keys):
            await source.newer()
        try:
            return await run(lambda: check_token(token, source.keys, rules, clock.now_ms()))
        except UnknownKey:
            if not await source.newer():
                raise
        return await run(lambda: check_token(token, source.keys, rules, clock.now_ms()))

    return check


class OAuthBearer:
    """One login by OAUTHBEARER."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._refused: str | None = None
        """Why the token is refused, once it is."""

    def step(self, token: bytes) -> Answer[Step]:
        """The client's message; or its last word after a refusal."""
        if self._refused is not None:
            if token != SEPARATOR.encode():
                return Denied(f"{self._refused}; and another message than the expected one followed")
            return Denied(self._refused)
        try:
            message = parse_client_message(token)
        except OAuthSyntaxError as error:
            return Denied(f"it sent {error}")
        return self._checked(message.token, message.user)

    async def _checked(self, token: str, user: str) -> Step:
        try:
            checked = await self._check(token)
        except TokenRefused as error:
            self._refused = f"its token was refused: {error}"
            return Challenge(INVALID_TOKEN)
        if user and user != checked.name:
            return Denied("it asked to be somebody else than its token says")
        return Accepted(f"User:{checked.name}", b"", checked.expires_ms)
