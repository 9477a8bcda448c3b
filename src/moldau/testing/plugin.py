"""Pytest fixtures that give a test its own Moldau broker; installed with the package, so no conftest is
needed.

    moldau_broker           a fresh broker for one test
    moldau_session_broker   one broker for the whole test session: use topics with names of their own
    moldau_schema_registry  a schema registry beside moldau_broker
    moldau_cluster          three fresh brokers and a ZooKeeper for one test; each broker is a process

The broker's code is imported when a fixture is first used, so a project that merely has Moldau installed
pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing.broker import Broker
    from moldau.testing.cluster import Cluster
    from moldau.testing.schema_registry import SchemaRegistry


@pytest.fixture
def moldau_broker() -> Iterator[Broker]:
    """A new broker for one test, removed with its data afterwards."""
    from moldau.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def moldau_session_broker() -> Iterator[Broker]:
    """One broker for all tests of a session (of a worker, under xdist)."""
    from moldau.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def moldau_schema_registry(moldau_broker: Broker) -> Iterator[SchemaRegistry]:
    """A schema registry that keeps its schemas in the test's own broker. Needs `moldau[registry]`."""
    from moldau.testing.schema_registry import SchemaRegistry

    with SchemaRegistry(moldau_broker) as registry:
        yield registry


@pytest.fixture
def moldau_cluster() -> Iterator[Cluster]:
    """A new cluster of three brokers for one test, removed with its data afterwards."""
    from moldau.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster
