"""Reads a topic to its end with isolation.level=read_committed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from moldau.tools.demo.check import Written
from moldau.tools.shared.errors import CommandError

IDLE_TIMEOUT_SECONDS = 15.0


def read_committed(
    bootstrap_servers: str, topic: str, client: Mapping[str, str] | None = None
) -> list[Written]:
    """All records of a topic, in the order of each partition; keys that are JSON objects are parsed."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    from moldau.tools.shared.connection import librdkafka_settings

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "demo-check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 3,
            **librdkafka_settings(dict(client or {})),
        }
    )
    written: list[Written] = []
    try:
        partitions = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in partitions])
        heard_at = time.monotonic()
        while partitions:
            messages = consumer.consume(5_000, timeout=0.2)
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > IDLE_TIMEOUT_SECONDS:
                raise CommandError(f"{topic}: no end is reached in partitions {sorted(partitions)}")
            for message in messages:
                error = message.error()
                if error is None:
                    written.append(Written(_key(message.key()), _value(message.value())))
                elif error.code() == KafkaError._PARTITION_EOF:
                    partitions.discard(message.partition())
                else:
                    raise CommandError(f"{topic}: {error.str()}")
    finally:
        consumer.close()
    return written


def _key(key: bytes | None) -> Any:
    text = (key or b"").decode()
    return json.loads(text) if text.startswith("{") else text


def _value(value: bytes | None) -> Any:
    return None if value is None else json.loads(value)
