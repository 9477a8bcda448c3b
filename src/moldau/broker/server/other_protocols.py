"""Recognises other protocols on the Kafka port, for the log and for an answer in the client's own protocol.

A Kafka frame begins with its length in four bytes; the first bytes of other protocols read as an impossible
length: "GET " is 1,195,725,856. What the client gets:

    HTTP          a small page: what this port is, where health is shown, how to connect
    all else      the end of the connection, with a message in the log

A TLS hello gets no TLS alert: clients take the end of the connection in the middle of a handshake for the
hint that the port speaks plaintext (as Kafka's does), and an alert for a TLS port that refuses them.

Pure: bytes in, text and bytes out. Not here: deciding that a length is impossible (connection.py).
"""

import re
import struct
from typing import NamedTuple

_HTTP_REQUEST = re.compile(
    rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT) (\S*)(?: HTTP/[\d.]*)?", re.ASCII
)
_HTTP2_PREFACE = b"PRI * HTTP/2"
_TLS_HANDSHAKE = 0x16
_SHOWN_BYTES = 24


class OtherProtocol(NamedTuple):
    """The protocol's name, the message for the log, and what to send before closing (may be empty)."""

    kind: str
    sentence: str
    answer: bytes = b""


def recognise(
    first_bytes: bytes, *, listener: str, http_address: str | None, tls: bool = False
) -> OtherProtocol:
    """Name what begins with these bytes.

    `listener` is the host:port it came to, by TLS or not; `http_address` that of the health page, None when
    there is none.
    """
    request = _HTTP_REQUEST.match(first_bytes)
    if request is not None:
        where = "" if http_address is None else f"; health and metrics are at http://{http_address}/"
        return OtherProtocol(
            "http",
            f"it speaks HTTP ({request[1].decode()}), and {listener} speaks the Kafka protocol{where}",
            _http_answer(request[1] == b"HEAD", listener, http_address),
        )
    if first_bytes.startswith(_HTTP2_PREFACE):
        return OtherProtocol("http2", f"it speaks HTTP/2 (or gRPC), and {listener} speaks the Kafka protocol")
    if len(first_bytes) >= 3 and first_bytes[0] == _TLS_HANDSHAKE and first_bytes[1] == 3:
        return OtherProtocol(
            "tls",
            f"it began a TLS handshake, and {listener} is a plaintext listener: set "
            "security.protocol=PLAINTEXT in the client, or connect it to a listener with TLS",
        )
    if first_bytes.startswith(b"SSH-"):
        return OtherProtocol("ssh", f"it speaks SSH, and {listener} speaks the Kafka protocol")
    if tls and _kafka_without_tls(first_bytes):
        return OtherProtocol(
            "plaintext",
            f"it speaks the Kafka protocol without TLS, and {listener} is a listener with TLS: set "
            "security.protocol=SSL or SASL_SSL in the client, or connect it to a listener without",
        )
    if tls:
        return OtherProtocol("no tls", f"what it sent is no TLS: {_shown(first_bytes)}")
    return _no_frame(first_bytes)


def _kafka_without_tls(first_bytes: bytes) -> bool:
    """The start of a client's first request: | size 4: below 64 KiB | API key 2 | version 2 |, both small."""
    return len(first_bytes) >= 8 and first_bytes[:2] == b"\0\0" and first_bytes[4] == first_bytes[6] == 0


def _no_frame(first_bytes: bytes) -> OtherProtocol:
    shown = _shown(first_bytes)
    if len(first_bytes) < 4:
        return OtherProtocol("short", f"what it sent is no Kafka request: {shown}")
    (size_bytes,) = struct.unpack_from(">i", first_bytes)
    if size_bytes <= 0:
        return OtherProtocol(
            "length", f"it sent a frame whose length is {size_bytes}, which cannot be: {shown}"
        )
    if all(32 <= byte < 127 or byte in b"\r\n\t" for byte in first_bytes):
        return OtherProtocol("text", f"it sent text, which is no Kafka request: {shown}")
    return OtherProtocol(
        "length",
        f"it sent a frame that claims {size_bytes} bytes, more than socket.request.max.bytes: {shown}",
    )


def _shown(first_bytes: bytes) -> str:
    more = "..." if len(first_bytes) > _SHOWN_BYTES else ""
    return repr(first_bytes[:_SHOWN_BYTES])[1:] + more


def _http_answer(head_only: bool, listener: str, http_address: str | None) -> bytes:
    if http_address is None:
        health = "This broker serves no health page: moldau.http.listener is empty."
    else:
        health = f"Health and metrics of this broker:   http://{http_address}/"
    body = (
        "This is the port of a Kafka broker (Moldau). It speaks the Kafka protocol, not HTTP.\n\n"
        f"{health}\n"
        f"To connect a Kafka client:            bootstrap.servers={listener}\n"
        f"To look at it from a shell:           kcat -L -b {listener}\n"
        f"                                      moldau topics list --bootstrap-server {listener}\n"
    ).encode()
    head = (
        "HTTP/1.1 400 Bad Request\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
    return head if head_only else head + body
