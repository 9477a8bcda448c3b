"""Java's key store format JKS, read without Java.

    | magic FEEDFEED 4 | version 4 | count 4 | entry ... | SHA-1 of password, "Mighty Aphrodite", the rest |
    entry, private key:  | 1 | alias | time 8 | length 4, EncryptedPrivateKeyInfo | count 4, certificate ... |
    entry, trusted:      | 2 | alias | time 8 | certificate |
    certificate:         | type | length 4, DER |            alias, type: length 2, text

The password is hashed as UTF-16. A key is protected by Sun's own scheme: XOR with a stream of SHA-1 digests,
each of the password and the digest before, the first one of the password and a salt:

    | salt 20 | key XOR stream | SHA-1 of password and key 20 |

Since Java 9 keytool writes PKCS12 also into files called .jks: those are recognised by their first bytes
(stores.py). JCEKS is not read.
"""

import hashlib
import hmac
import struct
from typing import NamedTuple

MAGIC = b"\xfe\xed\xfe\xed"
_WHITENER = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
_SUN_PROTECTOR = bytes.fromhex("2b060104012a02110101")  # 1.3.6.1.4.1.42.2.17.1.1


class WrongPassword(ValueError):
    """The store's or the key's password does not fit."""


class KeyEntry(NamedTuple):
    """A private key, still protected, and its certificate chain (DER), the key's own first."""

    alias: str
    protected_key: bytes
    chain: tuple[bytes, ...]


class JavaKeyStore(NamedTuple):
    """What a store holds."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]


def read_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """The entries of a store. Without a password its integrity is not checked, as in Java.

    WrongPassword; ValueError: it is damaged.
    """
    if password is not None:
        digest = hashlib.sha1(_utf16(password) + _WHITENER + data[:-_DIGEST_BYTES]).digest()
        if not hmac.compare_digest(digest, data[-_DIGEST_BYTES:]):
            raise WrongPassword("the password does not fit, or the store is damaged")
    try:
        return _entries(_Reader(data[: -_DIGEST_BYTES or None]))
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise ValueError(f"the store is damaged: {error}") from None


def private_key(entry: KeyEntry, password: str) -> bytes:
    """The key as PKCS#8 (DER). WrongPassword; ValueError: another protection."""
    protected = _protected_bytes(entry.protected_key)
    salt, hidden = protected[:_DIGEST_BYTES], protected[_DIGEST_BYTES:-_DIGEST_BYTES]
    secret = _utf16(password)
    stream, link = b"", salt
    while len(stream) < len(hidden):
        link = hashlib.sha1(secret + link).digest()
        stream += link
    key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), protected[-_DIGEST_BYTES:]):
        raise WrongPassword(f"the password of the key '{entry.alias}' does not fit")
    return key


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


class _Reader:
    """Numbers, texts and byte strings, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise IndexError("it ends early")
        self._at, start = end, self._at
        return self._data[start:end]

    def text(self) -> str:
        return self.take(self.number(">H")).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.text()
        return self.take(self.number(">I"))


def _entries(reader: _Reader) -> JavaKeyStore:
    reader.take(4)
    version = reader.number(">I")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(reader.number(">I")):
        tag = reader.number(">I")
        alias = reader.text()
        reader.number(">q")
        if tag == 1:
            protected = reader.take(reader.number(">I"))
            count = reader.number(">I")
            keys.append(KeyEntry(alias, protected, tuple(reader.certificate(version) for _ in range(count))))
        elif tag == 2:
            trusted.append(reader.certificate(version))
        else:
            raise ValueError(f"the store is damaged: an entry of kind {tag}")
    return JavaKeyStore(tuple(keys), tuple(trusted))


def _protected_bytes(info: bytes) -> bytes:
    """The octets in an EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE { OID, NULL }, OCTET STRING }."""
    from moldau.common.credentials.tls.der import children, only

    algorithm, octets = children(only(info))
    if next(iter(children(algorithm))).content != _SUN_PROTECTOR:
        raise ValueError("the key is not protected as in a JKS store; convert the store to PKCS12")
    if len(octets.content) <= 2 * _DIGEST_BYTES:
        raise ValueError("the store is damaged: a key is too short")
    return octets.content
