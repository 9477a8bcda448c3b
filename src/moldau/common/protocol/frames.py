"""Frames: what surrounds a message on a connection.

    request   | size 4 | key 2 | version 2 | correlation id 4 | client id nullable string | tags? | body |
    response  | size 4 | correlation id 4 | tags? | body |

The tag sections are there where the message's version is flexible (KIP-482), except that the response to
ApiVersions never has one: a client must be able to read it before it knows what the broker speaks. The client
id keeps its old two-byte length in all versions. A header's tags are stepped over; none is defined.

Not here: cutting a byte stream into frames (server/), and the table of what is served (handlers/).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from moldau.common.protocol.wire import MalformedMessage, read_uvarint, skip_tags

API_VERSIONS_KEY = 18

_HEADER_TAGS_MAX = 1024  # none is defined; each is looked at before the request is known to be large
_REQUEST_START = Struct(">hhih")
_SIZE_AND_CORRELATION = Struct(">ii")
_SIZE_CORRELATION_TAGS = Struct(">iix")

# From which version on an API is flexible, by API key (0 where it is not in the table): a header is read
# before the class of its message is known.
FLEXIBLE_FROM: dict[int, int] = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 18: 3, 19: 5,
    20: 4, 21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2, 34: 2,
    35: 2, 36: 2, 37: 2, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 48: 1, 49: 1, 53: 1, 54: 1, 56: 2,
}  # fmt: skip
_NEVER_FLEXIBLE = frozenset((4, 5, 6, 7, 17, 47))


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether an API's messages, and with them their headers, have tag sections in this version."""
    return api_key not in _NEVER_FLEXIBLE and api_version >= FLEXIBLE_FROM.get(api_key, 0)


@dataclass(slots=True)
class RequestHeader:
    """A request's header: the body starts at `body_offset` of the frame; `client_id` is empty if null."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body_offset: int


def parse_request_header(frame: memoryview | bytes) -> RequestHeader:
    """Parse the header of a request without its size. MalformedMessage.

    Neither key nor version need be known, and no version is refused here: an ApiVersions request that is too
    new must still be answered.
    """
    end = len(frame)
    if end < _REQUEST_START.size:
        raise MalformedMessage(f"a request of {end} bytes has no room for its header")
    api_key, api_version, correlation_id, length = _REQUEST_START.unpack_from(frame)
    offset = _REQUEST_START.size
    client_id = ""
    if length >= 0:
        if offset + length > end:
            raise MalformedMessage(f"a client id of {length} bytes in {end - offset} bytes")
        try:
            client_id = str(frame[offset : offset + length], "utf-8")
        except UnicodeDecodeError as cause:
            raise MalformedMessage(f"the client id is not UTF-8: {cause}") from cause
        offset += length
    elif length != -1:
        raise MalformedMessage(f"a client id of {length} bytes")
    if is_flexible(api_key, api_version):
        try:
            count, offset = read_uvarint(frame, offset)
            if count > _HEADER_TAGS_MAX:
                raise MalformedMessage(f"a header with {count} tagged fields")
            if count:
                offset = skip_tags(frame, offset, count, end)
        except IndexError as cause:
            raise MalformedMessage("the request ends within its header's tags") from cause
    return RequestHeader(api_key, api_version, correlation_id, client_id, offset)


def request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> bytes:
    """A request's header without the size, for clients and tests."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    return (
        _REQUEST_START.pack(api_key, api_version, correlation_id, length)
        + name
        + (b"\0" if flexible else b"")
    )


def frame_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: bytes
) -> bytes:
    """A complete request with its size."""
    flexible = is_flexible(api_key, api_version)
    header = request_header(api_key, api_version, correlation_id, client_id, flexible)
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


def has_tagged_response_header(api_key: int, api_version: int) -> bool:
    """Whether the response's header has a tag section: in flexible versions, but never for ApiVersions."""
    return api_key != API_VERSIONS_KEY and is_flexible(api_key, api_version)


def response_start(correlation_id: int, flexible: bool, body_bytes: int) -> bytes:
    """Size and header of a response whose body has `body_bytes` bytes and is written separately.

    `flexible` means that the header has a tag section: pass `has_tagged_response_header(...)`.
    """
    if flexible:
        return _SIZE_CORRELATION_TAGS.pack(body_bytes + 5, correlation_id)
    return _SIZE_AND_CORRELATION.pack(body_bytes + 4, correlation_id)


def frame_response(correlation_id: int, flexible: bool, body: bytes) -> bytes:
    """A complete response with its size; `flexible` as in `response_start`."""
    return response_start(correlation_id, flexible, len(body)) + body
