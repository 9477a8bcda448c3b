"""Brokers for tests of the kit: one for all, and private ones that are killed or cut off."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from torture.cluster_proxy import Cable

from moldau.testing import Broker

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "200",
}


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    """A broker for all tests that do not harm it."""
    with Broker(SETTINGS, process=True) as broker:
        yield broker


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A broker that a test may kill and restart."""
    with Broker(SETTINGS, process=True) as broker:
        yield broker


@pytest.fixture
def cable_and_broker() -> Iterator[tuple[Cable, Broker]]:
    """A broker that clients reach through a cable that can be cut."""
    from moldau.testing.ports import reserve_port

    port = reserve_port()
    cable = Cable(("127.0.0.1", port.number))
    settings = {
        **SETTINGS,
        "listeners": f"PLAINTEXT://127.0.0.1:{port.number}",
        "advertised.listeners": f"PLAINTEXT://{cable.address}",
    }
    try:
        with Broker(settings, process=True) as broker:
            yield cable, broker
    finally:
        cable.close()
        port.release()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    name = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:60]
    return f"{name}-{os.urandom(4).hex()}"


MakeTopic = Callable[..., str]


@pytest.fixture
def made_topic(shared_broker: Broker, topic: str) -> MakeTopic:
    """Makes the test's topic on the shared broker: `made_topic(partitions, **settings)`."""

    def make(partitions: int = 1, **settings: object) -> str:
        shared_broker.create_topic(topic, partitions, **settings)
        return topic

    return make
