"""What kafka-console-consumer prints for a record: Kafka's formatters, by their class names.

    DefaultMessageFormatter   [timestamp][partition][offset][delivery][epoch][headers][key] value, as the
                              properties say
    LoggingMessageFormatter   the same
    NoOpMessageFormatter      nothing
    OffsetsMessageFormatter, GroupMetadataMessageFormatter, TransactionLogMessageFormatter
                              records of __consumer_offsets and __transaction_state
                              (coordinator_formatters.py)
    Confluent's for Avro, JSON Schema and Protobuf (schema_formatters.py)

The names of Kafka before 4.0 (kafka.tools.DefaultMessageFormatter, ...) are understood too.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.common.core.message_headers import message_headers
from moldau.tools.kafka.problems import ToolError

Format = Callable[[Any], bytes]
DEFAULT = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
_TIMESTAMPS = {1: b"CreateTime:", 2: b"LogAppendTime:"}
_DEFAULTS = {
    "print.timestamp": "false",
    "print.key": "false",
    "print.offset": "false",
    "print.delivery": "false",
    "print.epoch": "false",
    "print.partition": "false",
    "print.headers": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
_NUMBERS = {"Long": ">q", "Integer": ">i", "Short": ">h", "Double": ">d", "Float": ">f", "Boolean": ">?"}
_RAW = ("String", "ByteArray", "ByteBuffer", "Bytes", "Void")


def formatter(name: str, properties: Mapping[str, str]) -> Format:
    """Return the function that formats a record. ToolError for a class that only Java has."""
    bare = name.rpartition(".")[2].rpartition("$")[2]
    if bare in ("DefaultMessageFormatter", "LoggingMessageFormatter"):
        return DefaultFormatter(properties)
    if bare == "NoOpMessageFormatter":
        return lambda message: b""
    if name.startswith("io.confluent."):
        from moldau.tools.kafka.formats import schema_formatters

        language = schema_formatters.language_of(name, "Formatter")
        if language is not None:
            return schema_formatters.SchemaFormatter(language, properties)
    from moldau.tools.kafka.formats import coordinator_formatters

    found = coordinator_formatters.FORMATTERS.get(bare)
    if found is None:
        raise ToolError(
            f"{name}\nJava classes cannot be loaded here: leave --formatter out, or name one of Kafka's"
        )
    return found


class DefaultFormatter:
    """Prints the columns that the properties ask for, and the value."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        values = _DEFAULTS | dict(properties)
        self._shown = {name: values[name].strip().lower() == "true" for name in _DEFAULTS if "print" in name}
        self._between, self._end, self._headers_between, self._null = (
            values[name].encode()
            for name in ("key.separator", "line.separator", "headers.separator", "null.literal")
        )
        self._key, self._value, self._header = (
            deserializer(values.get(f"{part}.deserializer", "")) for part in ("key", "value", "headers")
        )

    def __call__(self, message: Any) -> bytes:
        """Format one record of confluent-kafka."""
        columns: list[bytes] = []
        shown = self._shown
        if shown["print.timestamp"]:
            kind, when_ms = message.timestamp()
            columns.append(
                _TIMESTAMPS[kind] + str(when_ms).encode() if kind in _TIMESTAMPS else b"NO_TIMESTAMP"
            )
        if shown["print.partition"]:
            columns.append(b"Partition:%d" % message.partition())
        if shown["print.offset"]:
            columns.append(b"Offset:%d" % message.offset())
        if shown["print.delivery"]:
            columns.append(b"Delivery:NOT_PRESENT")
        if shown["print.epoch"]:
            columns.append(b"Epoch:NOT_PRESENT")
        if shown["print.headers"]:
            columns.append(self._headers(message_headers(message)))
        if shown["print.key"]:
            columns.append(self._text(message.key(), self._key))
        if shown["print.value"]:
            columns.append(self._text(message.value(), self._value))
        return self._between.join(columns) + self._end

    def _headers(self, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
        if not headers:
            return b"NO_HEADERS"
        return self._headers_between.join(
            name.encode() + b":" + self._text(value, self._header) for name, value in headers
        )

    def _text(self, data: Any, deserialize: Callable[[bytes], bytes]) -> bytes:
        return self._null if data is None else deserialize(data)


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode())).encode()
    except ValueError:
        raise ToolError("Error parsing data into UUID") from None


def deserializer(name: str) -> Callable[[bytes], bytes]:
    """Return what makes text of bytes, by the name of Kafka's deserializer. ToolError for one that only Java
    has.

    Byte arrays are printed as they are (Kafka prints the address of Java's object).
    """
    bare = name.rpartition(".")[2].removesuffix("Deserializer")
    if not bare or bare in _RAW:
        return lambda data: data
    if bare == "UUID":
        return _uuid
    if bare not in _NUMBERS:
        raise ToolError(f"{name}\nJava classes cannot be loaded here: Kafka's own deserializers are known")
    layout = struct.Struct(_NUMBERS[bare])

    def number(data: bytes) -> bytes:
        if len(data) != layout.size:
            raise ToolError(f"Size of data received by {bare}Deserializer is not {layout.size}")
        (value,) = layout.unpack(data)
        return str(value).lower().encode() if bare == "Boolean" else str(value).encode()

    return number
