"""One request with our own codec over a plain socket, for APIs that confluent-kafka does not offer.

    | api key 2 | version 2 | correlation id 4 | client id | tags |      tags (none: one byte of zero) only
                                                                         in the flexible versions of an API

The caller chooses a version that all brokers still in use support. With TLS and SASL the request goes over a
connection of our own client (`ask_by`).
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.wire import MalformedMessage
from moldau.tools.shared.errors import CommandError

if TYPE_CHECKING:
    from moldau.client.connection import Connection

FRAME_BYTES_MAX = 64 * 1024 * 1024
_CLIENT_ID = b"moldau-cli"
_CODES = {int(code): code for code in ErrorCode}


def error_words(error_code: int) -> str:
    """Return Kafka's message and name for an error code; "" for none."""
    if not error_code:
        return ""
    code = _CODES.get(error_code)
    if code is None:
        return f"error {error_code}"
    return f"{code.message.rstrip('.')} ({code.name})"


def ask_message(address: tuple[str, int], request: Message, version: int, timeout_seconds: float) -> Any:
    """Send a request and return its response. CommandError if the response is malformed or missing."""
    key, flexible = type(request).KEY, request.is_flexible(version)
    body = ask(address, key, version, request.encode(version), timeout_seconds, flexible=flexible)
    try:
        return type(request).RESPONSE.decode(body, version)
    except MalformedMessage:
        api = type(request).__name__.removesuffix("Request")
        raise CommandError(
            f"the broker at {address[0]}:{address[1]} does not know {api} version {version}: it is too old"
        ) from None


def ask_by(connection: Connection, request: Message, version: int, timeout_seconds: float) -> Any:
    """The same over a connection that has logged in."""
    from moldau.client.errors import ClientError

    try:
        return connection.ask(request, at_most=version, timeout_seconds=timeout_seconds)
    except (ClientError, OSError) as problem:
        raise CommandError(str(problem)) from None


def ask(
    address: tuple[str, int],
    key: int,
    version: int,
    body: bytes,
    timeout_seconds: float,
    *,
    flexible: bool = False,
) -> bytes:
    """Send one request and return the body of its response."""
    header = struct.pack(">hhih", key, version, 0, len(_CLIENT_ID)) + _CLIENT_ID
    frame = header + (b"\0" if flexible else b"") + body
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
    return answer[5:] if flexible else answer[4:]
