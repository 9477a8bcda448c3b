"""A login without a connection: requests in, decoded answers out; and a SCRAM client of a few lines."""

import random
from collections.abc import Mapping
from typing import Any

from moldau.broker.security.login.exchange import AboveLogin, Earlier, Failed, Login, Reply
from moldau.broker.security.login.plain import PlainUsers
from moldau.broker.security.login.scram import Known, Scram, ScramStore
from moldau.broker.security.login.steps import Offer
from moldau.common.core.clock import ManualClock
from moldau.common.credentials.scram import (
    ScramMechanism,
    base64_text,
    client_proof,
    credential_of,
    escaped,
    parse_server_first,
    salted_password,
    server_key,
    server_signature,
)
from moldau.common.credentials.scram_credential import ScramCredential
from moldau.common.protocol.frames import RequestHeader, frame_request
from moldau.common.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.common.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

CORRELATION = 77


def handshake(mechanism: str, version: int = 1) -> bytes:
    body = SaslHandshakeRequest(mechanism=mechanism).encode(version)
    return frame_request(17, version, CORRELATION, "test", body)[4:]


def authenticate(token: bytes, version: int = 2) -> bytes:
    body = SaslAuthenticateRequest(auth_bytes=token).encode(version)
    return frame_request(36, version, CORRELATION, "test", body)[4:]


def api_versions(version: int = 0) -> bytes:
    return frame_request(18, version, CORRELATION, "test", b"")[4:]


def plain(name: str, password: str, other_id: str = "") -> bytes:
    return f"{other_id}\0{name}\0{password}".encode()


def handshake_answer(frame: bytes | None, version: int = 1) -> SaslHandshakeResponse:
    assert frame is not None
    assert int.from_bytes(frame[4:8], "big") == CORRELATION
    return SaslHandshakeResponse.decode(frame[8:], version)


def authenticate_answer(frame: bytes | None, version: int = 2) -> SaslAuthenticateResponse:
    assert frame is not None
    assert int.from_bytes(frame[4:8], "big") == CORRELATION
    return SaslAuthenticateResponse.decode(frame[9 if version >= 2 else 8 :], version)


def _versions(header: RequestHeader, frame: bytes) -> tuple[bytes, bool]:
    return b"versions", header.api_version < 9


def _illegal(header: RequestHeader, sentence: str) -> bytes | None:
    return b"illegal" if header.api_key != 3 else None


class World:
    """A clock and the mechanisms of one listener."""

    def __init__(self, offered: Mapping[str, Offer] | None = None) -> None:
        self.clock = ManualClock()
        self.users = PlainUsers({"alice": "alice-secret", "bob": "bob-secret"}, random.Random(1))
        self.offered = offered if offered is not None else {"PLAIN": Offer(self.users.begin)}

    def login(self, earlier: Earlier | None = None) -> Login:
        return Login(lambda: self.offered, AboveLogin(_versions, _illegal), self.clock.now_ms, earlier)

    def logged(self, *frames: bytes, earlier: Earlier | None = None) -> list[Any]:
        """The replies to these frames, up to the first failure."""
        login = self.login(earlier)
        replies: list[Any] = []
        for frame in frames:
            reply = login.receive(frame)
            assert isinstance(reply, Reply)
            replies.append(reply)
            if isinstance(reply, Failed):
                break
        return replies


# SCRAM


def credential(
    mechanism: ScramMechanism, password: str, salt: bytes = b"salt of 16 bytes", iterations: int = 4096
) -> ScramCredential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


class ScramWorld:
    """Users with SCRAM credentials of one mechanism."""

    def __init__(self, mechanism: ScramMechanism, **passwords: str) -> None:
        self.mechanism = mechanism
        self.users = {name: credential(mechanism, word) for name, word in passwords.items()}
        self.tokens: dict[str, Known] = {}
        self.random = random.Random(5)
        self.store = ScramStore(
            self._user, self.tokens.get, lambda: b"secret", lambda: tuple(self.users.values())
        )

    def _user(self, name: str) -> Known | None:
        found = self.users.get(name)
        return None if found is None else Known(found, f"User:{name}")

    def begin(self) -> Scram:
        return Scram(self.mechanism, self.store, self.random)


class ScramClient:
    """A client's side of SCRAM, whose messages a test may change."""

    def __init__(self, mechanism: ScramMechanism, name: str, password: str, nonce: str = "client") -> None:
        self.mechanism, self.name, self.password, self.nonce = mechanism, name, password, nonce
        self.header = "n,,"
        self.extensions = ""
        self.auth_message = b""
        self.salted = b""

    def first(self) -> bytes:
        self.bare = f"n={escaped(self.name)},r={self.nonce}{self.extensions}"
        return (self.header + self.bare).encode()

    def final(self, server_first: bytes) -> bytes:
        told = parse_server_first(server_first, self.nonce)
        self.salted = salted_password(self.mechanism, self.password, told.salt, told.iterations)
        unproven = f"c={base64_text(self.header.encode())},r={told.nonce}"
        self.auth_message = f"{self.bare},{server_first.decode()},{unproven}".encode()
        proof = client_proof(self.mechanism, self.salted, self.auth_message)
        return f"{unproven},p={base64_text(proof)}".encode()

    def expected(self) -> bytes:
        key = server_key(self.mechanism, self.salted)
        return b"v=" + base64_text(server_signature(self.mechanism, key, self.auth_message)).encode()
