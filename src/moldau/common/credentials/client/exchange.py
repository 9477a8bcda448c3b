"""A SASL mechanism as a client runs it: messages to send, messages that came.

    message = exchange.first()
    while the server wants more:  message = exchange.next(challenge)

A step may take long (SCRAM hashes a password, others ask a token or ticket server): whoever has an event loop
runs it on a worker. `next` returns None when the server has proven what the mechanism demands of it and
nothing is left to send; only then is the login complete.

Not here: how the messages travel (client/login.py).
"""

import secrets
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol

from moldau.common.credentials.client.options import SaslOptions
from moldau.common.credentials.errors import CredentialsError

NONCE_BYTES = 24


class LoginFailed(Exception):
    """The server broke the mechanism's rules or could not prove who it is; the message is without secrets."""


class Exchange(Protocol):
    """One login. Both methods raise LoginFailed, or CredentialsError for what the client has configured."""

    def first(self) -> bytes:
        """The first message."""

    def next(self, challenge: bytes) -> bytes | None:
        """The answer to what the server sent; None if the login is complete."""


MakeExchange = Callable[[SaslOptions, str, Callable[[], str]], Exchange]

_MECHANISMS: Mapping[str, str] = {
    "PLAIN": "moldau.common.credentials.client.plain:PlainExchange",
    "SCRAM-SHA-256": "moldau.common.credentials.client.scram:ScramExchange",
    "SCRAM-SHA-512": "moldau.common.credentials.client.scram:ScramExchange",
    "OAUTHBEARER": "moldau.common.credentials.client.oauthbearer:OAuthBearerExchange",
    "GSSAPI": "moldau.common.credentials.client.gssapi:GssapiExchange",
}
"""Where each mechanism is: imported when it is used, since some need optional packages."""


def os_nonce() -> str:
    """A random text for one login, from the operating system."""
    return secrets.token_urlsafe(NONCE_BYTES)


def exchange_of(sasl: SaslOptions, host: str, nonce: Callable[[], str] = os_nonce) -> Exchange:
    """A login at `host`, as the settings ask for. CredentialsError: they cannot be used."""
    place = _MECHANISMS.get(sasl.mechanism)
    if place is None:
        raise CredentialsError(
            f"sasl.mechanism={sasl.mechanism} is not supported; the mechanisms are {', '.join(_MECHANISMS)}"
        )
    module, _, name = place.partition(":")
    make: MakeExchange = getattr(import_module(module), name)
    return make(sasl, host, nonce)
