"""Connections that are secured and logged in, for load generators: TLS by Python's `ssl`, SASL step by step.

    connect = connector(security.login("SASL_SSL", "alice", "SCRAM-SHA-256"))
    with Connection(port, connect=connect) as connection: ...

Of SCRAM (RFC 5802) the client's expensive part, the salted password, is computed once for each salt, and the
server's signature is checked: a login counts only when both ends have proved themselves. Nothing of Moldau's
own client is used here.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Callable

from bench import wire
from moldau.testing.security import Login

HANDSHAKE, AUTHENTICATE = 17, 36
Connect = Callable[[int, float], socket.socket]
"""Opens a connection to a port of loopback, logged in if need be; the second argument is its timeout in
seconds."""


class LoginFailed(Exception):
    """The broker refused the login; the text is its own."""


def plain(port: int, timeout_s: float) -> socket.socket:
    """A connection without TLS and login."""
    one = socket.create_connection(("127.0.0.1", port), timeout_s)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def connector(login: Login) -> Connect:
    """How to connect by this login."""
    context = tls_context(login) if login.tls else None

    def connect(port: int, timeout_s: float) -> socket.socket:
        one = plain(port, timeout_s)
        try:
            if context is not None:
                one = context.wrap_socket(one, server_hostname="localhost")
            if login.mechanism:
                log_in(one, login)
        except BaseException:
            one.close()
            raise
        return one

    return connect


def tls_context(login: Login) -> ssl.SSLContext:
    """TLS as a client of this login has it."""
    context = ssl.create_default_context(cafile=str(login.authority))
    if login.pair is not None:
        context.load_cert_chain(login.pair.certificate, login.pair.key)
    return context


def log_in(one: socket.socket, login: Login) -> None:
    """SaslHandshake and SaslAuthenticate, version 1 each. LoginFailed if refused."""
    answer = _call(one, HANDSHAKE, wire.string(login.mechanism))
    (error,) = struct.unpack_from(">h", answer)
    if error:
        raise LoginFailed(f"SaslHandshake: error {error}")
    if login.mechanism == "PLAIN":
        _authenticate(one, f"\0{login.user}\0{login.password}".encode())
    else:
        _scram(one, login)


def _scram(one: socket.socket, login: Login) -> None:
    algorithm = "sha256" if login.mechanism.endswith("256") else "sha512"
    nonce = secrets.token_hex(12)
    first = f"n={login.user},r={nonce}"
    challenge = _authenticate(one, f"n,,{first}".encode()).decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    if not fields["r"].startswith(nonce):
        raise LoginFailed("the server's nonce does not begin with the client's")
    salted = _salted(algorithm, login.password, fields["s"], int(fields["i"]))
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"{first},{challenge},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(ours ^ theirs for ours, theirs in zip(client_key, signature, strict=True))
    final = _authenticate(one, f"{without_proof},p={base64.b64encode(proof).decode()}".encode())
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    if final != b"v=" + base64.b64encode(hmac.digest(server_key, signed, algorithm)):
        raise LoginFailed("the server's signature is wrong")


@functools.lru_cache
def _salted(algorithm: str, password: str, salt: str, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(salt), iterations)


def _authenticate(one: socket.socket, data: bytes) -> bytes:
    answer = _call(one, AUTHENTICATE, struct.pack(">i", len(data)) + data)
    error, length = struct.unpack_from(">hh", answer)
    at = 4 + max(length, 0)
    if error:
        raise LoginFailed(f"SaslAuthenticate: error {error}: {answer[4:at].decode()}")
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + size]


def _call(one: socket.socket, api_key: int, body: bytes) -> bytes:
    """Send a request of version 1; the answer behind its length and correlation id."""
    one.sendall(wire.frame(api_key, 1, body))
    (size,) = struct.unpack(">i", exactly(one, 4))
    return exactly(one, size)[4:]


def exactly(one: socket.socket, count: int) -> bytes:
    """So many bytes; ConnectionError if the connection ends first."""
    data = b""
    while len(data) < count:
        piece = one.recv(count - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return data
