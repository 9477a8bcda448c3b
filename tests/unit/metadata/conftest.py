"""A real ZooKeeper server for the tests of this folder: one JVM for all of them."""

import pytest

from moldau.ensemble import ZooKeeperServer, free_ports


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory):
    """A server that serves; sessions of 100 ms and more."""
    folder = tmp_path_factory.mktemp("zookeeper")
    with ZooKeeperServer(folder, free_ports(1)[0], tick_ms=100, session_ticks_max=600, syncs=False) as server:
        yield server


@pytest.fixture(scope="session")
def observer(zookeeper):
    """A client of its own."""
    from kazoo.client import KazooClient

    client = KazooClient(zookeeper.connect_string, timeout=30)
    client.start(60)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def zookeeper_world(zookeeper, observer):
    """A cluster on it, below a chroot of its own."""
    from zookeeper_world import ZooKeeperWorld

    world = ZooKeeperWorld(zookeeper, observer)
    yield world
    world.close()
