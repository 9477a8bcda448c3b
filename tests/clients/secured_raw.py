"""A client of one socket as in raw_client.py, with TLS and logins: what an attacker sends byte by byte."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
from typing import Any

from raw_client import RawClient

from bench.login import connector, plain
from moldau.testing.security import Login

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
TIMEOUT_S = 60.0


class SecuredRaw(RawClient):
    """One connection, logged in if a login is given."""

    def __init__(self, port: int, login: Login | None = None) -> None:
        self.socket = (connector(login) if login else plain)(port, TIMEOUT_S)
        self._numbers = itertools.count(1)

    def __enter__(self) -> SecuredRaw:
        return self

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self.call(SASL_HANDSHAKE, version, mechanism=mechanism)

    def authenticate(self, data: bytes, version: int = 1) -> Any:
        return self.call(SASL_AUTHENTICATE, version, auth_bytes=data)

    def closed(self) -> bool:
        """Whether the broker has closed the connection and sent nothing more."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True


class ScramExchange:
    """The two messages of a SCRAM client (RFC 5802), each to be changed by who attacks."""

    def __init__(self, user: str, password: str, extensions: str = "") -> None:
        self._password = password
        self.first_bare = f"n={user},r=fyko-d2lbbFgONRv9qkxdawL{extensions}"

    @property
    def first(self) -> bytes:
        return f"n,,{self.first_bare}".encode()

    def final(self, challenge: bytes, *, binding: str = "biws", nonce: str = "") -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        without_proof = f"c={binding},r={nonce or fields['r']}"
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        stored = hashlib.sha256(client_key).digest()
        signed = f"{self.first_bare},{challenge.decode()},{without_proof}".encode()
        signature = hmac.digest(stored, signed, "sha256")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
