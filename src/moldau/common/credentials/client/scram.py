"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677): the password is proven and not sent, and the server
proves that it knows the credential.

    client   n,,n=user,r=nonce                      [,tokenauth=true: a delegation token, KIP-48]
    server   r=nonce+its own,s=salt,i=iterations
    client   c=biws,r=...,p=proof
    server   v=its signature, or e=error

The salted password is slow to compute on purpose. It is kept for the next logins of this process, under all
that it depends on, so that many connections cost one. Not here: the arithmetic (credentials/scram.py).
"""

import hmac
from collections.abc import Callable

from moldau.common.credentials.client.exchange import LoginFailed
from moldau.common.credentials.client.options import SaslOptions
from moldau.common.credentials.scram import (
    BY_NAME,
    TOKEN_AUTHENTICATION,
    ScramMechanism,
    ScramSyntaxError,
    base64_bytes,
    base64_text,
    client_proof,
    escaped,
    fields,
    message_text,
    parse_server_first,
    salted_password,
    server_key,
    server_signature,
)

_HEADER = "n,,"
_KEPT_MAX = 64
_kept: dict[tuple[str, str, bytes, int], bytes] = {}


class ScramExchange:
    """One login."""

    def __init__(self, sasl: SaslOptions, host: str, nonce: Callable[[], str]) -> None:
        self._mechanism = BY_NAME[sasl.mechanism]
        username, self._password = sasl.user_and_password()
        self._nonce = nonce()
        self._bare = f"n={escaped(username)},r={self._nonce}"
        if sasl.options.get(TOKEN_AUTHENTICATION, "").lower() == "true":
            self._bare += f",{TOKEN_AUTHENTICATION}=true"
        self._signature: bytes | None = None
        self._done = False

    def first(self) -> bytes:
        """The user's name and a nonce."""
        return (_HEADER + self._bare).encode()

    def next(self, challenge: bytes) -> bytes | None:
        """The proof for the server's first message; None after its last, once its signature is right."""
        try:
            if self._signature is None:
                return self._final(challenge)
            self._check(challenge)
        except ScramSyntaxError as error:
            raise LoginFailed(f"the server broke the rules of {self._mechanism.name}: {error}") from None
        return None

    def _final(self, challenge: bytes) -> bytes:
        server = parse_server_first(challenge, self._nonce)
        without_proof = f"c={base64_text(_HEADER.encode())},r={server.nonce}"
        auth_message = ",".join((self._bare, message_text(challenge), without_proof)).encode()
        salted = _salted(self._mechanism, self._password, server.salt, server.iterations)
        self._signature = server_signature(self._mechanism, server_key(self._mechanism, salted), auth_message)
        return (
            f"{without_proof},p={base64_text(client_proof(self._mechanism, salted, auth_message))}".encode()
        )

    def _check(self, challenge: bytes) -> None:
        if self._done:
            raise ScramSyntaxError("a message after the last one")
        text = message_text(challenge)
        if text.startswith("e="):
            raise LoginFailed(f"the server refused the login: {text[2:80]}")
        (signature,), _ = fields(text, "v")
        assert self._signature is not None
        if not hmac.compare_digest(base64_bytes(signature), self._signature):
            raise LoginFailed("the server does not know the user's credential: its signature is wrong")
        self._done = True


def _salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    key = (mechanism.name, password, salt, iterations)
    found = _kept.get(key)
    if found is None:
        if len(_kept) >= _KEPT_MAX:
            _kept.clear()
        found = _kept[key] = salted_password(mechanism, password, salt, iterations)
    return found
