"""The order of a HashMap's keys; the expected ones were printed by Java 17."""

from __future__ import annotations

from moldau.tools.kafka.java.java_map_order import hash_code, map_order

NAMES = "min.insync.replicas segment.bytes max.message.bytes retention.ms cleanup.policy"
MORE = " ".join("abcdefghijklmno")


def test_keys_come_as_from_javas_map() -> None:
    assert map_order(NAMES.split()) == [
        "cleanup.policy",
        "max.message.bytes",
        "min.insync.replicas",
        "segment.bytes",
        "retention.ms",
    ]
    # Twenty names take 32 buckets.
    wanted = (
        "a b c d max.message.bytes e f g h i min.insync.replicas j k l m n o cleanup.policy segment.bytes"
    )
    assert map_order(f"{NAMES} {MORE}".split()) == [*wanted.split(), "retention.ms"]


def test_hash_codes_are_of_utf_16() -> None:
    assert hash_code("retention.ms") == hash_code("retention.mr") + 1
    assert hash_code("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert map_order([]) == []
