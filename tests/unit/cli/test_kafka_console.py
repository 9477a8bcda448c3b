"""What kafka-console-producer reads and kafka-console-consumer prints; the rest is in tests/clients."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from moldau.common.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from moldau.tools.kafka.formats.coordinator_formatters import FORMATTERS
from moldau.tools.kafka.formats.line_reader import Line, LineReader
from moldau.tools.kafka.formats.message_formatters import formatter
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.programs.configs import parse_added


class Record:
    """As confluent-kafka gives them."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: Any = None) -> None:
        self._key, self._value, self._headers = key, value, headers

    def key(self) -> bytes | None:
        """The key."""
        return self._key

    def value(self) -> bytes | None:
        """The value."""
        return self._value

    def headers(self) -> Any:
        """The headers."""
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """Kind, and milliseconds."""
        return 2, 1700000000000

    def partition(self) -> int:
        """The partition."""
        return 3

    def offset(self) -> int:
        """The offset."""
        return 7


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, b"k\tv", Line(None, b"k\tv", [])),
        ({"parse.key": "true"}, b"k\tv\tw", Line(b"k", b"v\tw", [])),
        ({"parse.key": "true", "key.separator": "::"}, b"::v", Line(b"", b"v", [])),
        ({"parse.headers": "true"}, b"a:1,b:\tv", Line(None, b"v", [("a", b"1"), ("b", b"")])),
        ({"parse.headers": "true"}, b"a:1,,\tv", Line(None, b"v", [("a", b"1")])),
        ({"parse.headers": "true", "ignore.error": "true"}, b"\tv", Line(None, b"v", [("", None)])),
        (
            {"parse.key": "true", "parse.headers": "true", "null.marker": "NIL"},
            b"NIL\tNIL\tNIL",
            Line(None, None, []),
        ),
        ({"parse.key": "true", "ignore.error": "true"}, b"alone", Line(None, b"alone", [])),
        (
            {"parse.headers": "true", "headers.separator": "|", "headers.key.separator": "="},
            b"a=1|b=2\tv",
            Line(None, b"v", [("a", b"1"), ("b", b"2")]),
        ),
    ],
)
def test_a_line_is_a_record(properties: dict[str, str], line: bytes, expected: Line) -> None:
    assert LineReader(properties).parse(line) == expected


@pytest.mark.parametrize(
    ("properties", "line", "message"),
    [
        ({"parse.key": "true"}, b"alone", "No key separator found on line number 2: 'alone'"),
        ({"parse.headers": "true"}, b"alone", "No headers delimiter found on line number 2: 'alone'"),
        ({"parse.headers": "true"}, b"a\tv", "No header key separator found in pair 'a' on line number 2"),
        ({"parse.headers": "true"}, b"\tv", "No header key separator found in pair '' on line number 2"),
        (
            {"parse.headers": "true", "null.marker": "NIL"},
            b"NIL:1\tv",
            "Header keys should not be equal to the null marker 'NIL' as they can't be null",
        ),
    ],
)
def test_a_line_without_a_separator_is_named(properties: dict[str, str], line: bytes, message: str) -> None:
    reader = LineReader(properties)
    reader.parse(b"a:1\tb\tc")
    with pytest.raises(ToolError) as caught:
        reader.parse(line)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"headers.separator": ":"}, "headers.separator and headers.key.separator may not be equal"),
        ({"headers.delimiter": ","}, "headers.delimiter and headers.separator may not be equal"),
        ({"key.separator": "-", "null.marker": "-"}, "null.marker and key.separator may not be equal"),
    ],
)
def test_separators_must_differ(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        LineReader(properties)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, b"v\n"),
        ({"print.key": "true", "key.separator": "|"}, b"k|v\n"),
        ({"print.headers": "true", "print.value": "false", "headers.separator": ";"}, b"a:1;b:null\n"),
        (
            {"print.timestamp": "true", "print.partition": "true", "print.offset": "true"},
            b"LogAppendTime:1700000000000\tPartition:3\tOffset:7\tv\n",
        ),
    ],
)
def test_the_default_formatter(properties: dict[str, str], expected: bytes) -> None:
    record = Record(b"k", b"v", [("a", b"1"), ("b", None)])
    for name in (
        "kafka.tools.DefaultMessageFormatter",
        "org.apache.kafka.tools.consumer.LoggingMessageFormatter",
    ):
        assert formatter(name, properties)(record) == expected


def test_nulls_and_numbers() -> None:
    java = "org.apache.kafka.common.serialization."
    form = formatter(
        "DefaultMessageFormatter",
        {
            "print.key": "true",
            "null.literal": "NIL",
            "key.deserializer": f"{java}LongDeserializer",
            "value.deserializer": f"{java}ByteArrayDeserializer",
        },
    )
    assert form(Record(struct.pack(">q", -5), b"\xff")) == b"-5\t\xff\n"
    assert form(Record(None, None)) == b"NIL\tNIL\n"
    with pytest.raises(ToolError, match="Size of data received by LongDeserializer is not 8"):
        form(Record(b"x", b""))
    assert formatter("NoOpMessageFormatter", {})(Record(b"", b"")) == b""


@pytest.mark.parametrize("properties", [{}, {"key.deserializer": "com.example.Mine"}])
def test_java_classes_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ToolError, match="Java classes cannot be loaded here"):
        formatter("DefaultMessageFormatter" if properties else "com.example.Mine", properties)


def test_the_transaction_log() -> None:
    key = struct.pack(">h", 0) + TransactionLogKey(transactional_id="t").encode(0)
    value = TransactionLogValue(
        producer_id=5,
        producer_epoch=1,
        transaction_timeout_ms=60000,
        transaction_status=1,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=10,
        transaction_start_timestamp_ms=9,
    )
    record = Record(key, struct.pack(">h", 1) + value.encode(1))
    assert FORMATTERS["TransactionLogMessageFormatter"](record) == (
        b'{"key":{"type":0,"data":{"transactionalId":"t"}},"value":{"version":1,"data":{"producerId":5,'
        b'"producerEpoch":1,"transactionTimeoutMs":60000,"transactionStatus":1,"transactionPartitions":null,'
        b'"transactionLastUpdateTimestampMs":10,"transactionStartTimestampMs":9}}}'
    )
    assert FORMATTERS["OffsetsMessageFormatter"](record) != b""
    assert FORMATTERS["GroupMetadataMessageFormatter"](record) == b""
    assert FORMATTERS["TransactionLogMessageFormatter"](Record(key, None)).endswith(b'"value":null}')


def test_what_is_to_be_set() -> None:
    assert parse_added("a=1,b=[x,y],c=,d=[z]") == {"a": "1", "b": "x,y", "c": "", "d": "z"}
    with pytest.raises(ToolError, match="must be in the format"):
        parse_added("a=1,b")
