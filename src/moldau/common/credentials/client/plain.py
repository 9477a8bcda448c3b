"""SASL/PLAIN (RFC 4616): the user's name and password as they are, so over TLS only.

| authorization id, empty | NUL | user name | NUL | password |
"""

from collections.abc import Callable

from moldau.common.credentials.client.options import SaslOptions
from moldau.common.credentials.errors import CredentialsError


class PlainExchange:
    """One message, which the server accepts or not."""

    def __init__(self, sasl: SaslOptions, host: str, nonce: Callable[[], str]) -> None:
        self._username, self._password = sasl.user_and_password()
        if "\0" in self._username or "\0" in self._password:
            raise CredentialsError("a user name or password with a NUL cannot be sent by SASL/PLAIN")

    def first(self) -> bytes:
        """Name and password."""
        return f"\0{self._username}\0{self._password}".encode()

    def next(self, challenge: bytes) -> None:
        """The server has nothing to say."""
        return
