"""A client of one socket that speaks any version of any API, with `kio` as the codec.

`kio` is generated from Kafka's own message definitions, so what parses here is right, whatever our codec
believes. Requests are written as plain dictionaries: `fill` makes the version's dataclass from them, leaves
out what the version lacks and gives every missing field its default or zero.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import itertools
import socket
import struct
import types
import typing
import uuid
from collections.abc import Mapping
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

API_VERSIONS = 18


class Disconnected(Exception):
    """The broker closed the connection instead of answering."""


class RawClient:
    """One connection."""

    def __init__(self, bootstrap: str, timeout_s: float = 15.0) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._numbers = itertools.count(1)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, api_key: int, version: int, **values: Any) -> Any:
        """Send a request made of `values` and parse the answer, which must fit its schema."""
        number = next(self._numbers)
        self.send(request_frame(api_key, version, number, values))
        return parse_response(self.receive(), api_key, version, number)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """The next frame, without its length."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self.socket.recv(min(size, 1 << 20))
            except ConnectionError as error:
                raise Disconnected from error
            if not part:
                raise Disconnected
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def advertised(self) -> dict[int, tuple[int, int]]:
        """What ApiVersions says: key -> lowest and highest version."""
        answer = self.call(API_VERSIONS, 0)
        return {int(one.api_key): (int(one.min_version), int(one.max_version)) for one in answer.api_keys}


def request_frame(api_key: int, version: int, correlation_id: int, values: Mapping[str, Any]) -> bytes:
    """The whole frame of a request, length included."""
    schema: Any = load_request_schema(api_key, version)
    header_schema = schema.__header_schema__
    header = {
        "request_api_key": api_key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": "raw-client",
    }
    buffer = io.BytesIO()
    entity_writer(header_schema)(buffer, fill(header_schema, header))
    entity_writer(schema)(buffer, fill(schema, values))
    frame = buffer.getvalue()
    return struct.pack(">i", len(frame)) + frame


def parse_response(frame: bytes, api_key: int, version: int, correlation_id: int) -> Any:
    """The answer, with nothing left over."""
    schema: Any = load_response_schema(api_key, version)
    header, size = entity_reader(schema.__header_schema__)(frame, 0)
    assert header.correlation_id == correlation_id
    body, body_size = entity_reader(schema)(frame, size)
    assert size + body_size == len(frame), f"{len(frame) - size - body_size} bytes left over"
    return body


def fill(schema: Any, values: Mapping[str, Any]) -> Any:
    """A dataclass of `kio` from plain values."""
    hints = typing.get_type_hints(schema)
    arguments = {}
    for field in dataclasses.fields(schema):
        if field.name in values:
            arguments[field.name] = _convert(
                hints[field.name], field.metadata.get("kafka_type"), values[field.name]
            )
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            arguments[field.name] = _zero(hints[field.name], field.metadata.get("kafka_type"))
    return schema(**arguments)


def _convert(hint: Any, kafka_type: str | None, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list | tuple):
        item = next((one for one in _flatten(hint) if typing.get_origin(one) is tuple), None)
        item_hint = typing.get_args(item)[0] if item is not None else Any
        return tuple(_convert(item_hint, kafka_type, one) for one in value)
    if isinstance(value, Mapping):
        schema = next(one for one in _flatten(hint) if dataclasses.is_dataclass(one))
        return fill(schema, value)
    if kafka_type and kafka_type.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kafka_type and kafka_type.startswith("datetime"):
        return datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
    if kafka_type == "uuid" and isinstance(value, bytes):
        return uuid.UUID(bytes=value)
    return value


def _flatten(hint: Any) -> list[Any]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [part for one in typing.get_args(hint) for part in _flatten(one)]
    return [hint]


def _zero(hint: Any, kafka_type: str | None) -> Any:
    options = _flatten(hint)
    if type(None) in options:
        return None
    if any(typing.get_origin(one) is tuple for one in options):
        return ()
    if dataclasses.is_dataclass(options[0]):
        return fill(options[0], {})
    if kafka_type == "string":
        return ""
    if kafka_type in ("bytes", "records"):
        return b""
    if kafka_type == "bool":
        return False
    if kafka_type == "error_code":
        return options[0](0)
    return _convert(hint, kafka_type, 0)
