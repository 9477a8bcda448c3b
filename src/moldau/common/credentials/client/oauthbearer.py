"""SASL/OAUTHBEARER (RFC 7628) as a client: a token that an identity provider gave (token_retrieval.py).

client   n,,^Aauth=Bearer TOKEN^A^A
broker   nothing: logged in; or {"status":"invalid_token"}, to which ^A is the answer, and it is over
"""

from collections.abc import Callable

from moldau.common.credentials.client.options import SaslOptions
from moldau.common.credentials.client.token_retrieval import forget_token, token_for
from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.oauthbearer import SEPARATOR, ClientMessage, OAuthSyntaxError, client_message

_EXTENSION = "extension_"


class OAuthBearerExchange:
    """One login."""

    def __init__(self, sasl: SaslOptions, host: str, nonce: Callable[[], str]) -> None:
        del host, nonce
        self._sasl = sasl

    def first(self) -> bytes:
        """The token. It blocks while the identity provider is asked. CredentialsError."""
        extensions = {
            name.removeprefix(_EXTENSION): value
            for name, value in self._sasl.options.items()
            if name.startswith(_EXTENSION)
        }
        try:
            return client_message(ClientMessage(token_for(self._sasl), "", extensions))
        except OAuthSyntaxError as error:
            raise CredentialsError(f"sasl.jaas.config: {error}") from None

    def next(self, challenge: bytes) -> bytes | None:
        """None if the token was accepted; else the end that the broker waits for before it says so."""
        if not challenge:
            return None
        forget_token(self._sasl)
        return SEPARATOR.encode()
