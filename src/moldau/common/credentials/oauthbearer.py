"""SASL/OAUTHBEARER's messages (RFC 7628), as both ends need them.

client   n,a=USER,^Aauth=Bearer TOKEN^Aname=value^A^A        ^A is byte 1; a=USER and pairs may be missing
server   (nothing)                                           the token is accepted
server   {"status":"invalid_token"}                          it is not; the client answers ^A, and it is over
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

SEPARATOR = "\x01"
INVALID_TOKEN = b'{"status":"invalid_token"}'
_MESSAGE = re.compile(
    r"n,(?:a=(?P<user>(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01(?P<pairs>.*)\x01", re.DOTALL
)
_PAIR = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")
_AUTH = re.compile(r"(\w+) +([-_.~+/=a-zA-Z0-9]+)")


class ClientMessage(NamedTuple):
    """A client's message. `user`: the authorization id, "" if there is none."""

    token: str
    user: str = ""
    extensions: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return "ClientMessage([hidden])"


class OAuthSyntaxError(ValueError):
    """A message that is not OAUTHBEARER's; the text has nothing of the message in it."""


def parse_client_message(message: bytes) -> ClientMessage:
    """A client's message. OAuthSyntaxError."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise OAuthSyntaxError("a message that is not UTF-8") from None
    found = _MESSAGE.fullmatch(text)
    if found is None:
        raise OAuthSyntaxError("a message that is not OAUTHBEARER's")
    pairs: dict[str, str] = {}
    *inner, last = found["pairs"].split(SEPARATOR)
    for text in inner:
        pair = _PAIR.fullmatch(text)
        if pair is None or pair[1] in pairs:
            raise OAuthSyntaxError("a message with a malformed or repeated pair")
        pairs[pair[1]] = pair[2]
    if last:
        raise OAuthSyntaxError("a message that ends within a pair")
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None:
        raise OAuthSyntaxError("a message without a token")
    if auth[1].lower() != "bearer":
        raise OAuthSyntaxError("a message of another scheme than Bearer")
    user = (found["user"] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientMessage(auth[2], user, pairs)


def client_message(message: ClientMessage) -> bytes:
    """The bytes of a client's message. OAuthSyntaxError for an extension that cannot be sent."""
    user = message.user.replace("=", "=3D").replace(",", "=2C")
    pairs = [f"auth=Bearer {message.token}"]
    for name, value in message.extensions.items():
        pair = f"{name}={value}"
        if name == "auth" or _PAIR.fullmatch(pair) is None:
            raise OAuthSyntaxError(f"the extension {name!r} cannot be sent")
        pairs.append(pair)
    header = f"n,a={user}," if user else "n,,"
    return f"{header}{SEPARATOR}{SEPARATOR.join(pairs)}{SEPARATOR}{SEPARATOR}".encode()
