"""The requests of a login, without a socket: SaslHandshake, then SaslAuthenticate until both sides are done.

    steps = login_steps(sasl, host, address, versions)
    next_one = advance(steps, None)
    while it is a LoginRequest:  next_one = advance(steps, the response to it)
    then it is a LoggedIn

The same steps re-authenticate a connection (KIP-368). A step may take long, since it runs the mechanism's
(credentials/client/exchange.py).

Errors: Denied, with the broker's reason; MechanismRefused, with what it offers; LoginFailed, when the
broker breaks the mechanism's rules; CredentialsError for one's own settings. None of them has a secret in it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from moldau.client.errors import ClientError, RequestRefused, error_words
from moldau.common.credentials.client.exchange import LoginFailed, exchange_of, os_nonce
from moldau.common.credentials.client.options import SaslOptions
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.common.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_HANDSHAKE_VERSION = 1
"""After version 0 the messages would follow without a header, as for brokers of before Kafka 1.0."""
_STEPS_MAX = 16
_REAUTHENTICATE_AFTER = (0.85, 0.95)
"""The share of a session's life after which a client authenticates again, as Java's clients do."""

Versions = Mapping[int, tuple[int, int]]
Steps = Generator["LoginRequest", Any, "LoggedIn"]
LoginResponse = SaslHandshakeResponse | SaslAuthenticateResponse


class LoginRequest(NamedTuple):
    """A request and the version to send it in."""

    request: SaslHandshakeRequest | SaslAuthenticateRequest
    version: int


class LoggedIn(NamedTuple):
    """Done. `lifetime_ms`: for how long the broker takes requests; 0 without a limit."""

    lifetime_ms: int

    def again_after_ms(self, source: random.Random) -> float | None:
        """When to authenticate again; None for never. At random, so that clients do not come all at once."""
        return self.lifetime_ms * source.uniform(*_REAUTHENTICATE_AFTER) if self.lifetime_ms > 0 else None


class MechanismRefused(ClientError):
    """The broker does not offer the mechanism."""


class Denied(RequestRefused):
    """The broker refuses the login."""


def login_steps(
    sasl: SaslOptions,
    host: str,
    address: str,
    versions: Versions,
    nonce: Callable[[], str] = os_nonce,
) -> Steps:
    """The requests of one login at the broker `host`; `address` is for messages, `versions` are what it
    supports, by API.
    """
    answer = yield LoginRequest(SaslHandshakeRequest(mechanism=sasl.mechanism), _handshake(address, versions))
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "no mechanism"
        raise MechanismRefused(f"{address} does not offer SASL/{sasl.mechanism}, but {offered}")
    if answer.error_code:
        raise Denied(
            f"{address} refused the SASL handshake: {error_words(answer.error_code)}", answer.error_code
        )
    version = min(versions.get(SaslAuthenticateRequest.KEY, (0, 0))[1], SaslAuthenticateRequest.VERSIONS[1])
    exchange = exchange_of(sasl, host, nonce)
    message: bytes | None = exchange.first()
    for _ in range(_STEPS_MAX):
        answer = yield LoginRequest(SaslAuthenticateRequest(auth_bytes=message or b""), version)
        if answer.error_code:
            reason = answer.error_message or error_words(answer.error_code)
            user = sasl.options.get("username")
            who = f"the user {user}" if user else f"the {sasl.mechanism} login"
            raise Denied(f"{address} refused {who}: {reason}", answer.error_code)
        message = exchange.next(answer.auth_bytes)
        if message is None:
            return LoggedIn(answer.session_lifetime_ms)
    raise LoginFailed(f"{address} does not come to an end of the {sasl.mechanism} login")


def advance(steps: Steps, response: LoginResponse | None) -> LoginRequest | LoggedIn:
    """The next request, or the end; `response` is None for the first. Raises as `login_steps`, and nothing
    that a future cannot hold (StopIteration).
    """
    try:
        return steps.send(response)
    except StopIteration as end:
        done: LoggedIn = end.value
        return done


def _handshake(address: str, versions: Versions) -> int:
    low, high = versions.get(SaslHandshakeRequest.KEY, (0, -1))
    if high < 0:
        raise MechanismRefused(f"{address} takes no login: it is a listener without SASL")
    if not low <= _HANDSHAKE_VERSION <= high:
        raise MechanismRefused(
            f"{address} supports SASL only as Kafka before 1.0 did, which is not spoken here"
        )
    return _HANDSHAKE_VERSION
