"""SASL DIGEST-MD5 (RFC 2831) as a client: the login that ZooKeeper has instead of SCRAM.

    server: realm="zk-sasl-md5",nonce="...",charset=utf-8,algorithm=md5-sess
    client: username="...",realm=...,nonce=...,nc=00000001,cnonce="...",digest-uri=...,response=32 hex digits
    server: rspauth=32 hex digits, by which it proves that it knows the password

Only quality of protection `auth`: nothing is encrypted, so use it inside TLS. MD5 keeps nobody out who can
guess; it is what the server speaks.
"""

import hmac
import re
from collections.abc import Callable
from hashlib import md5

from moldau.common.credentials.client.exchange import LoginFailed, os_nonce

_PAIR = re.compile(r'\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*))\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_ESCAPE = re.compile(r'(["\\])')
_COUNT = "00000001"  # one login, one answer
_CHALLENGE_BYTES_MAX = 2047  # RFC 2831, 2.1.1; a long one of blanks would be matched for minutes


class DigestMd5Exchange:
    """One login of a user at `uri` ("zookeeper/zk-sasl-md5")."""

    def __init__(self, username: str, password: str, uri: str, nonce: Callable[[], str] = os_nonce) -> None:
        self._username = username
        self._password = password
        self._uri = uri
        self._nonce = nonce
        self._expected = ""

    def first(self) -> bytes:
        """Nothing: the server begins."""
        return b""

    def next(self, challenge: bytes) -> bytes | None:
        """The answer to the server's challenge; None if it has proven that it knows the password, too.
        LoginFailed."""
        fields = _fields(challenge)
        if self._expected:
            if not hmac.compare_digest(fields.get("rspauth", "").encode(), self._expected.encode()):
                raise LoginFailed("the server could not prove that it knows the password")
            return None
        nonce, realm = fields.get("nonce"), fields.get("realm", "")
        if not nonce or fields.get("algorithm") != "md5-sess" or "auth" not in _offered(fields):
            raise LoginFailed("the server's challenge is not one of DIGEST-MD5 with the quality auth")
        own = self._nonce()
        user = b":".join(_hashed(each) for each in (self._username, realm, self._password))
        secret = md5(user, usedforsecurity=False).digest() + f":{nonce}:{own}".encode()
        between = f"{nonce}:{_COUNT}:{own}:auth"
        self._expected = _digest(secret, between, f":{self._uri}")
        pairs = {
            "charset": "utf-8",
            "username": _quoted(self._username),
            "realm": _quoted(realm),
            "nonce": _quoted(nonce),
            "nc": _COUNT,
            "cnonce": _quoted(own),
            "digest-uri": _quoted(self._uri),
            "response": _digest(secret, between, f"AUTHENTICATE:{self._uri}"),
            "qop": "auth",
        }
        return ",".join(f"{name}={value}" for name, value in pairs.items()).encode()


def _digest(secret: bytes, between: str, method_and_uri: str) -> str:
    return _hex(f"{_hex(secret)}:{between}:{_hex(method_and_uri.encode())}".encode())


def _hashed(text: str) -> bytes:
    """The bytes of a name or password that are hashed: ISO 8859-1 where it has all its letters."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _hex(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def _offered(fields: dict[str, str]) -> list[str]:
    return [each.strip() for each in fields.get("qop", "auth").split(",")]


def _quoted(text: str) -> str:
    return '"' + _NEEDS_ESCAPE.sub(r"\\\1", text) + '"'


def _fields(challenge: bytes) -> dict[str, str]:
    """The pairs of a challenge. LoginFailed."""
    if len(challenge) > _CHALLENGE_BYTES_MAX:
        raise LoginFailed(f"the server's challenge has more than {_CHALLENGE_BYTES_MAX} bytes")
    try:
        text = challenge.decode("utf-8")
    except UnicodeDecodeError:
        raise LoginFailed("the server's challenge is not UTF-8") from None
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            raise LoginFailed("the server's challenge is not one of DIGEST-MD5")
        found[match[1]] = match[3] if match[2] is None else _ESCAPE.sub(r"\1", match[2])
        position = match.end()
    return found
