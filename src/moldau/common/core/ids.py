"""Identifiers of 128 bits: raw bytes inside the broker, url-safe base64 as text.

The text form is Kafka's: 22 characters of the url-safe alphabet, without padding. A random id never begins
with `-` in text, so that it cannot be taken for a command-line option, and is never one of the two that Kafka
reserves (all zeros: no id; one: the metadata topic).
"""

import base64
import random

ZERO_UUID = bytes(16)
_RESERVED = frozenset({ZERO_UUID, bytes(15) + b"\x01"})


def uuid_to_text(raw: bytes) -> str:
    """The 22 characters of these 16 bytes."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes of the text; ValueError if it is not an id."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError(f"{text!r} is not an id: {error}") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not an id: it holds {len(raw)} bytes instead of 16")
    return raw


def random_uuid(source: random.Random) -> bytes:
    """A random id (version 4), drawn from `source`."""
    while True:
        bits = source.getrandbits(128)
        bits = (bits & ~(0xF << 76)) | (0x4 << 76)
        bits = (bits & ~(0x3 << 62)) | (0x2 << 62)
        raw = bits.to_bytes(16, "big")
        if raw not in _RESERVED and not uuid_to_text(raw).startswith("-"):
            return raw
