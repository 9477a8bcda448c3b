"""Requests as ready-made bytes, so that the load generator spends its CPU on sockets and not on encoding.

Old, non-flexible versions are used on purpose: Produce 7, Fetch 11, Metadata 4 and CreateTopics 4 are
understood by every broker of the last years and have answers of a size that can be known beforehand. Nothing
here comes from Moldau's own codec: a broker must not be measured with its own idea of the protocol.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = 0, 1, 2, 3, 19
CLIENT_ID = b"bench"


def string(text: str) -> bytes:
    """A length of two bytes, then the text."""
    return struct.pack(">h", len(text)) + text.encode()


def frame(api_key: int, version: int, body: bytes, correlation_id: int = 1) -> bytes:
    """A whole request with header version 1."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body


def varint(number: int) -> bytes:
    """A zigzag varint as records use it."""
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch(
    values: Sequence[bytes], timestamp_ms: int | None = None, keys: Sequence[bytes] | None = None
) -> bytes:
    """An uncompressed record batch of format 2, without headers, by no producer in particular."""
    now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    records = bytearray()
    for number, value in enumerate(values):
        key = varint(-1) if keys is None else varint(len(keys[number])) + keys[number]
        body = b"\0" + varint(0) + varint(number) + key + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    count = len(values)
    tail = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, -1, -1, -1, count) + bytes(records)
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c.crc32c(tail)) + tail


def produce(topic: str, records: bytes, acks: int = 1, correlation_id: int = 1) -> bytes:
    """Produce version 7 of one batch to partition 0."""
    return produce_to(topic, 0, records, acks, correlation_id)


def produce_to(topic: str, partition: int, records: bytes, acks: int = 1, correlation_id: int = 1) -> bytes:
    """Produce version 7 of one batch to one partition."""
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + string(topic)
    body += struct.pack(">iii", 1, partition, len(records)) + records
    return frame(PRODUCE, 7, body, correlation_id)


def produce_response_bytes(topic: str) -> int:
    """Size of the answer to `produce`, its own length included."""
    return 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4


def produce_error_at(topic: str) -> int:
    """Where the error code stands in that answer."""
    return 4 + 4 + 4 + 2 + len(topic) + 4 + 4


def fetch(topic: str, offset: int, max_bytes: int, max_wait_ms: int = 500, min_bytes: int = 1) -> bytes:
    """Fetch version 11 of partition 0, without a session."""
    body = struct.pack(">iiiibiii", -1, max_wait_ms, min_bytes, max_bytes, 0, 0, -1, 1) + string(topic)
    body += struct.pack(">iiiqqi", 1, 0, -1, offset, -1, max_bytes) + struct.pack(">i", 0) + string("")
    return frame(FETCH, 11, body)


def fetch_records_at(topic: str) -> int:
    """Where the records of partition 0 begin in the answer to `fetch`, length included (no aborted list)."""
    return 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4 + 4


def metadata(topic: str) -> bytes:
    """Metadata version 4 of one topic, which makes it where the broker does that."""
    return frame(METADATA, 4, struct.pack(">i", 1) + string(topic) + b"\1")


def create_topic(topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> bytes:
    """CreateTopics version 4 with one replica."""
    body = struct.pack(">i", 1) + string(topic) + struct.pack(">ihi", partitions, 1, 0)
    body += struct.pack(">i", len(configs or ()))
    for name, value in (configs or {}).items():
        body += string(name) + string(value)
    return frame(CREATE_TOPICS, 4, body + struct.pack(">ib", 60_000, 0))


def latest_offset(topic: str) -> bytes:
    """ListOffsets version 1: the end of partition 0."""
    body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, 0, -1)
    return frame(LIST_OFFSETS, 1, body)
