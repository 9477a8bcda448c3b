"""OffsetDelete, which no call of confluent-kafka reaches: two requests on our own codec over a plain socket.

The group's coordinator is looked up at the bootstrap broker, then asked. Both messages are used in versions
whose header is the old one (| api key 2 | version 2 | correlation id 4 | client id |), which every broker
still answers.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.cli.errors import CommandError
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.cli.group_facts import Place

FIND_COORDINATOR_VERSION = 2
OFFSET_DELETE_VERSION = 0
FRAME_BYTES_MAX = 64 * 1024 * 1024
_CLIENT_ID = b"moldau-cli"
_CODES = {int(code): code for code in ErrorCode}


def delete_group_offsets(connection: Connection, group: str, places: Sequence[Place]) -> dict[Place, str]:
    """Delete committed offsets.

    Gives for each partition "" or what is wrong. CommandError if the group refuses.
    """
    timeout = connection.timeout_seconds
    found = FindCoordinatorResponse.decode(
        _ask(
            connection.addresses[0],
            FindCoordinatorRequest.KEY,
            FIND_COORDINATOR_VERSION,
            FindCoordinatorRequest(key=group, key_type=0).encode(FIND_COORDINATOR_VERSION),
            timeout,
        ),
        FIND_COORDINATOR_VERSION,
    )
    _require(found.error_code, group)
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[
                OffsetDeleteRequestPartition(partition_index=index) for name, index in places if name == topic
            ],
        )
        for topic in sorted({name for name, _ in places})
    ]
    answer = OffsetDeleteResponse.decode(
        _ask(
            (found.host, found.port),
            OffsetDeleteRequest.KEY,
            OFFSET_DELETE_VERSION,
            OffsetDeleteRequest(group_id=group, topics=topics).encode(OFFSET_DELETE_VERSION),
            timeout,
        ),
        OFFSET_DELETE_VERSION,
    )
    _require(answer.error_code, group)
    return {
        (topic.name, partition.partition_index): _words(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }


def _require(error_code: int, group: str) -> None:
    if error_code:
        raise CommandError(f"group {group!r}: {_words(error_code)}")


def _words(error_code: int) -> str:
    if not error_code:
        return ""
    code = _CODES.get(error_code)
    if code is None:
        return f"error {error_code}"
    return f"{code.message.rstrip('.')} ({code.name})"


def _ask(address: tuple[str, int], key: int, version: int, body: bytes, timeout_seconds: float) -> bytes:
    """Send one request and give the body of its answer."""
    header = struct.pack(">hhih", key, version, 0, len(_CLIENT_ID)) + _CLIENT_ID
    frame = header + body
    try:
        with socket.create_connection(address, timeout=timeout_seconds) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            with connection.makefile("rb") as stream:
                prefix = stream.read(4)
                size = struct.unpack(">i", prefix)[0] if len(prefix) == 4 else 0
                answer = stream.read(size) if 4 <= size <= FRAME_BYTES_MAX else b""
    except OSError as problem:
        raise CommandError(f"the broker at {address[0]}:{address[1]} did not answer: {problem}") from None
    if len(answer) < 4:
        raise CommandError(
            f"the broker at {address[0]}:{address[1]} closed the connection: is it a Kafka broker?"
        )
    return answer[4:]
