"""The headers of requests and replies.

request   correlation-id   32 hex digits, one request
          reply-topic, reply-partition
          deadline-ms      when nobody waits any more (milliseconds since 1970, the requester's clock)
reply     correlation-id
          error            what the responder's handler raised; the value is empty then
          duplicate        "1": the same request had been answered before; this is the same answer again
"""

from __future__ import annotations

import re
from typing import NamedTuple

from confluent_kafka import Message

from moldau.common.core.message_headers import message_headers
from moldau.kit.errors import KitError

CORRELATION = "correlation-id"
REPLY_TOPIC = "reply-topic"
REPLY_PARTITION = "reply-partition"
DEADLINE = "deadline-ms"
ERROR = "error"
DUPLICATE = "duplicate"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_CORRELATION_BYTES_MAX = 256


class RemoteError(KitError):
    """The responder's handler raised; the text says what."""


class Address(NamedTuple):
    """Where a reply goes, and until when it is wanted."""

    correlation: bytes
    topic: str
    partition: int
    deadline_ms: int | None

    def encode(self) -> list[tuple[str, bytes]]:
        """As headers."""
        headers = [
            (CORRELATION, self.correlation),
            (REPLY_TOPIC, self.topic.encode()),
            (REPLY_PARTITION, str(self.partition).encode()),
        ]
        return headers if self.deadline_ms is None else [*headers, (DEADLINE, str(self.deadline_ms).encode())]


def headers_of(record: Message) -> dict[str, bytes]:
    """Headers by name; of equal names the last. None of a record whose names are no text."""
    return {name: content for name, content in message_headers(record) if content is not None}


def address_of(record: Message) -> Address | None:
    """A request's address; None if the record is no request, or names no place that a reply can go to."""
    found = headers_of(record)
    try:
        deadline = found.get(DEADLINE)
        address = Address(
            found[CORRELATION],
            found[REPLY_TOPIC].decode("ascii"),
            int(found[REPLY_PARTITION]),
            int(deadline) if deadline is not None else None,
        )
    except (KeyError, ValueError):
        return None
    is_place = _TOPIC.fullmatch(address.topic) and 0 <= address.partition < 1 << 31
    return address if is_place and len(address.correlation) <= _CORRELATION_BYTES_MAX else None
