"""kafka-avro-console-consumer and its five siblings: Kafka's console tools with Confluent's formatters.

Confluent's scripts call Kafka's tools with a formatter (or line reader) and the registry's address put before
what was typed; so do these.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.tools.kafka.formats.schema_formatters import class_name
from moldau.tools.kafka.programs import console_consumer, console_producer


def _consume(language: str, words: Sequence[str]) -> int:
    return console_consumer.main([*_before("--formatter", class_name(language, "Formatter"), words), *words])


def _produce(language: str, words: Sequence[str]) -> int:
    return console_producer.main([*_before("--line-reader", class_name(language, "Reader"), words), *words])


def _before(option: str, name: str, words: Sequence[str]) -> list[str]:
    # An empty line, --help and --version are answered by the tool itself.
    return [option, name] if words else []


def avro_consumer(words: Sequence[str]) -> int:
    """kafka-avro-console-consumer."""
    return _consume("avro", words)


def json_schema_consumer(words: Sequence[str]) -> int:
    """kafka-json-schema-console-consumer."""
    return _consume("json-schema", words)


def protobuf_consumer(words: Sequence[str]) -> int:
    """kafka-protobuf-console-consumer."""
    return _consume("protobuf", words)


def avro_producer(words: Sequence[str]) -> int:
    """kafka-avro-console-producer."""
    return _produce("avro", words)


def json_schema_producer(words: Sequence[str]) -> int:
    """kafka-json-schema-console-producer."""
    return _produce("json-schema", words)


def protobuf_producer(words: Sequence[str]) -> int:
    """kafka-protobuf-console-producer."""
    return _produce("protobuf", words)
