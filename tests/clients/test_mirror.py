"""Mirror topics between two real brokers: equal bytes, offsets, states, and what a mirror refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from mirror_world import Pair, make_topic, produce, read, stored

from moldau.testing import Broker

pytestmark = pytest.mark.client


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "source", tmp_path / "target"


@pytest.fixture
def pair(folders: tuple[Path, Path]) -> Iterator[Pair]:
    with Broker(data=folders[0]) as source, Broker(data=folders[1]) as target:
        yield Pair(source.bootstrap_servers, target)


def test_a_topic_is_mirrored_byte_for_byte_and_goes_on(pair: Pair, folders: tuple[Path, Path]) -> None:
    make_topic(pair.source, "orders", 2)
    produce(pair.source, "orders", [f"a{each}" for each in range(50)])
    produce(pair.source, "orders", ["z"] * 10, partition=1, **{"compression.type": "lz4"})
    assert pair.create("orders") == {"orders": ""}
    pair.wait_state("orders", "mirroring")
    pair.wait_level("orders", 50, 10)
    produce(pair.source, "orders", [f"b{each}" for each in range(50)])
    pair.wait_level("orders", 100, 10)
    here = read(pair.target.bootstrap_servers, "orders", count=100)
    assert here == read(pair.source, "orders", count=100)
    for partition in (0, 1):
        assert stored(folders[1], "orders", partition) == stored(folders[0], "orders", partition)


def test_a_mirror_is_read_only_until_it_is_failed_over(pair: Pair) -> None:
    make_topic(pair.source, "orders")
    produce(pair.source, "orders", ["1", "2", "3"])
    pair.create("orders")
    pair.wait_level("orders", 3)
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": pair.target.bootstrap_servers, "message.timeout.ms": 20000})
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(str(error)))
    producer.flush(30)
    assert "POLICY_VIOLATION" in errors[0]
    assert pair.act("failover") == {"orders": ""}
    pair.wait_state("orders", "failed-over")
    produce(pair.target.bootstrap_servers, "orders", ["4"])
    assert [value for _, value in read(pair.target.bootstrap_servers, "orders", count=4)] == [
        "1",
        "2",
        "3",
        "4",
    ]
