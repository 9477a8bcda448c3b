"""SCRAM's arithmetic and message syntax (RFC 5802, RFC 7677), shared by the broker and by clients.

    salted password = PBKDF2(password, salt, iterations)          slow on purpose: in a worker
    client key      = HMAC(salted password, "Client Key")         stored key = H(client key)
    server key      = HMAC(salted password, "Server Key")
    client proof    = client key XOR HMAC(stored key, auth message)

A broker keeps salt, iterations, stored key and server key; none of them suffices to log in. As Kafka and its
clients do, names and passwords are taken as their UTF-8 bytes, without SASLprep: with it, a password that is
not ASCII would give another key here than in a Java client.

Standard library only (docs/decisions/scram.md). Not here: the steps of an exchange: the broker's are in
security/login/scram.py.
"""

import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple

from moldau.common.credentials.scram_credential import ScramCredential

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""What Kafka stores credentials with."""
ITERATIONS_DEFAULT = 4096
CLIENT_ITERATIONS_MAX = 1_000_000
"""A client does not hash longer than that for a server that it does not know yet; about a second."""
MESSAGE_BYTES_MAX = 16 * 1024
TOKEN_AUTHENTICATION = "tokenauth"
"""The extension by which a client says that its name is the id of a delegation token (KIP-48)."""


class ScramMechanism(NamedTuple):
    """One of Kafka's two SCRAM mechanisms. `number`: that of the protocol; `hash_name`: of hashlib."""

    name: str
    number: int
    hash_name: str
    hash_bytes: int


SHA_256 = ScramMechanism("SCRAM-SHA-256", 1, "sha256", 32)
SHA_512 = ScramMechanism("SCRAM-SHA-512", 2, "sha512", 64)
BY_NAME: Mapping[str, ScramMechanism] = {each.name: each for each in (SHA_256, SHA_512)}
BY_NUMBER: Mapping[int, ScramMechanism] = {each.number: each for each in (SHA_256, SHA_512)}


class ScramSyntaxError(ValueError):
    """A message that is not SCRAM's, or not the expected one; the text has nothing of the message in it."""


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of the password; takes milliseconds to seconds, so never on an event loop."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """The key whose knowledge a client proves."""
    return hmac.digest(salted, b"Client Key", mechanism.hash_name)


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """The key with which the server proves that it knows the credential."""
    return hmac.digest(salted, b"Server Key", mechanism.hash_name)


def stored_key(mechanism: ScramMechanism, key_of_client: bytes) -> bytes:
    """What the server keeps of the client key."""
    return hashlib.new(mechanism.hash_name, key_of_client).digest()


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What to store for a salted password."""
    stored = stored_key(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, stored, server_key(mechanism, salted), iterations)


def client_proof(mechanism: ScramMechanism, salted: bytes, auth_message: bytes) -> bytes:
    """A client's proof for this exchange."""
    key = client_key(mechanism, salted)
    signature = hmac.digest(stored_key(mechanism, key), auth_message, mechanism.hash_name)
    return _xor(key, signature)


def server_signature(mechanism: ScramMechanism, key_of_server: bytes, auth_message: bytes) -> bytes:
    """The server's proof for this exchange."""
    return hmac.digest(key_of_server, auth_message, mechanism.hash_name)


def proof_is_right(mechanism: ScramMechanism, stored: bytes, auth_message: bytes, proof: bytes) -> bool:
    """Whether a client's proof is that of the stored key; in the same time for any proof."""
    if len(proof) != mechanism.hash_bytes:
        return False
    key = _xor(proof, hmac.digest(stored, auth_message, mechanism.hash_name))
    return hmac.compare_digest(stored_key(mechanism, key), stored)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# Syntax


def escaped(name: str) -> str:
    """A user name as it stands in messages."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """The user name that stands in a message so. ScramSyntaxError."""
    parts = name.split("=")
    if any(each[:2] not in ("2C", "3D") for each in parts[1:]):
        raise ScramSyntaxError("a name with an = that escapes nothing")
    text = parts[0] + "".join((("," if each[:2] == "2C" else "=") + each[2:]) for each in parts[1:])
    if not text or "\0" in text:
        raise ScramSyntaxError("a name that is empty or has a NUL")
    return text


def fields(text: str, *keys: str) -> tuple[list[str], dict[str, str]]:
    """The values of `key=value` pairs: those that must come first, in this order, then the extensions by key.
    ScramSyntaxError, also for a mandatory extension (m=), of which none is known.
    """
    parts = text.split(",")
    if len(parts) < len(keys):
        raise ScramSyntaxError("a message with too few fields")
    values = []
    for key, part in zip(keys, parts, strict=False):
        if not part.startswith(f"{key}="):
            raise ScramSyntaxError(f"a message without {key}= in its place")
        values.append(part[len(key) + 1 :])
    extensions: dict[str, str] = {}
    for part in parts[len(keys) :]:
        key, equals, value = part.partition("=")
        if not (equals and value and key.isascii() and key.isalpha()) or key == "m" or key in extensions:
            raise ScramSyntaxError("an extension that is malformed, repeated or mandatory")
        extensions[key] = value
    return values, extensions


def checked_nonce(nonce: str) -> str:
    """The nonce, if it is made of printable characters. ScramSyntaxError."""
    if not nonce or not all("\x21" <= each <= "\x7e" and each != "," for each in nonce):
        raise ScramSyntaxError("a nonce that is empty or not printable")
    return nonce


def base64_bytes(text: str) -> bytes:
    """The bytes of a base64 field. ScramSyntaxError."""
    try:
        return binascii.a2b_base64(text.encode(), strict_mode=True) if text else b""
    except ValueError:
        raise ScramSyntaxError("a field that is not base64") from None


def base64_text(data: bytes) -> str:
    """Bytes as a base64 field."""
    return binascii.b2a_base64(data, newline=False).decode()


def message_text(message: bytes) -> str:
    """A message as text. ScramSyntaxError, also for one so long that reading it would take milliseconds."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramSyntaxError(f"a message of {len(message)} bytes; {MESSAGE_BYTES_MAX} are read")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramSyntaxError("a message that is not UTF-8") from None


class ServerFirst(NamedTuple):
    """The server's first message: the whole nonce, and with what to salt the password."""

    nonce: str
    salt: bytes
    iterations: int


def parse_server_first(message: bytes, own_nonce: str) -> ServerFirst:
    """What a client reads of `r=...,s=...,i=...`, checked: the nonce goes on from the client's own, and the
    iterations are within what Kafka stores and what a client may be made to compute. ScramSyntaxError.
    """
    (nonce, salt, iterations), _ = fields(message_text(message), "r", "s", "i")
    if not checked_nonce(nonce).startswith(own_nonce) or len(nonce) == len(own_nonce):
        raise ScramSyntaxError("a nonce that does not go on from the client's")
    if not (iterations.isascii() and iterations.isdigit() and len(iterations) < 10):
        raise ScramSyntaxError("a count of iterations that is no number")
    if not ITERATIONS_MIN <= int(iterations) <= CLIENT_ITERATIONS_MAX:
        raise ScramSyntaxError(
            f"{iterations} iterations; {ITERATIONS_MIN} to {CLIENT_ITERATIONS_MAX} are taken"
        )
    found = ServerFirst(nonce, base64_bytes(salt), int(iterations))
    if not found.salt:
        raise ScramSyntaxError("an empty salt")
    return found
