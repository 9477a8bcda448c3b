"""A single broker that is pointed at an ensemble takes its metadata along, once, whenever it is killed."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from test_metadata_conformance import ENDPOINTS, Follower, registration, topic

from moldau.broker.metadata.changes import (
    BrokerRegistered,
    ClusterCreated,
    ConfigsChanged,
    ControllerElected,
    ProducerIdsAllocated,
)
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.folder_owner import JOINED, MOVING, Owner, read_owner, refuse_without_zookeeper
from moldau.broker.metadata.image import ResourceType
from moldau.broker.metadata.lock import lock_folder
from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.zookeeper.data_folder import DataFolder
from moldau.common.core.files import OsFiles
from moldau.testing import Broker

pytestmark = pytest.mark.xdist_group("zookeeper")

FILES = OsFiles()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def data_folder(folder, connect="zk:2181/moldau"):
    return DataFolder(Path(folder), FILES, lock_folder, connect)


async def single_broker(folder, cluster_id="single"):
    """A broker that ran with an embedded store; gives its image."""
    store, follower = EmbeddedStore(folder), Follower()
    await store.open()
    await store.follow(0, follower)
    broker_epoch = await store.register_broker(registration(1))
    epoch = await store.elect_controller(1)
    for changes in (
        [ClusterCreated(cluster_id)],
        [BrokerRegistered(1, broker_epoch, ENDPOINTS, None), ControllerElected(1, epoch)],
        [topic("a", 1), topic("b", 2), ConfigsChanged(ResourceType.TOPIC, "a", {"retention.ms": "1"})],
        [ProducerIdsAllocated(1, 5_000)],
    ):
        await store.append_if(follower.image.version, changes)
    await store.close()
    return follower.image


async def opened_in(world, folder):
    """A store on the ensemble for the broker of this folder, and its image."""
    store = world.make(data_folder(folder))
    return store, await store.open()


def test_the_metadata_moves_once(zookeeper_world, folder):
    async def scenario():
        before = await single_broker(folder)
        store, image = await opened_in(zookeeper_world, folder)
        assert image == before
        follower = Follower(image)
        await store.follow(image.version, follower)
        assert await store.register_broker(registration(1)) > before.brokers[1].broker_epoch
        assert await store.elect_controller(1) > before.controller_epoch
        assert await store.append_if(image.version, [topic("c", 3)]) == image.version + 1
        await store.close()
        assert read_owner(FILES, str(folder)) == Owner("single", "zk:2181/moldau", JOINED)
        again, image = await opened_in(zookeeper_world, folder)
        assert image == follower.image
        assert set(image.topics) == {"a", "b", "c"}
        await again.close()

    asyncio.run(scenario())


def test_after_that_the_broker_does_not_start_by_itself(zookeeper_world, folder):
    async def scenario():
        await single_broker(folder)
        store, _ = await opened_in(zookeeper_world, folder)
        await store.close()

    asyncio.run(scenario())
    with pytest.raises(
        MetadataStoreError,
        match=r"cluster single, whose metadata is in ZooKeeper: set zookeeper\.connect=zk:",
    ):
        refuse_without_zookeeper(FILES, str(folder))


@pytest.mark.parametrize("killed", ["before the ensemble has it", "after the ensemble has it"])
def test_a_broker_that_is_killed_while_it_moves(zookeeper_world, folder, killed, monkeypatch):
    world = zookeeper_world

    class Killed(BaseException):
        pass

    def die(*arguments, **named):
        raise Killed

    async def scenario():
        before = await single_broker(folder)
        if killed.startswith("before"):
            monkeypatch.setattr("moldau.broker.metadata.zookeeper.foundation.lay", die)
        else:
            monkeypatch.setattr(DataFolder, "check", die)
        with pytest.raises(Killed):
            await opened_in(world, folder)
        monkeypatch.undo()
        assert read_owner(FILES, str(folder)).state == MOVING
        with pytest.raises(MetadataStoreError):
            refuse_without_zookeeper(FILES, str(folder))
        assert bool(world.observer.exists(world.layout.head)) == killed.startswith("after")
        store, image = await opened_in(world, folder)
        assert image == before
        await store.close()
        assert read_owner(FILES, str(folder)).state == JOINED

    asyncio.run(scenario())


def test_an_ensemble_with_another_cluster_is_refused(zookeeper_world, folder, tmp_path):
    async def scenario():
        store = zookeeper_world.make()
        await store.open()
        await store.append_if(0, [ClusterCreated("other")])
        before = await single_broker(folder)
        with pytest.raises(MetadataStoreError, match=r"belongs to cluster single, but cluster other is at"):
            await opened_in(zookeeper_world, folder)
        await store.close()
        refuse_without_zookeeper(FILES, str(folder))  # the broker goes on by itself
        alone = EmbeddedStore(folder)
        assert await alone.open() == before
        await alone.close()

    asyncio.run(scenario())


def test_a_broker_of_the_cluster_finds_the_ensemble_empty(zookeeper_world, folder):
    world = zookeeper_world

    async def scenario():
        store, _ = await opened_in(world, folder)
        await store.append_if(0, [ClusterCreated("c")])
        await store.register_broker(registration(1))
        await store.close()
        assert read_owner(FILES, str(folder)).cluster_id == "c"
        world.observer.delete(world.layout.root, recursive=True)
        with pytest.raises(MetadataStoreError, match=r"cluster c, but there is no metadata.*restore it"):
            await opened_in(world, folder)
        assert not world.observer.exists(world.layout.base), "nothing was made there"

    asyncio.run(scenario())


def test_a_folder_that_another_broker_uses(zookeeper_world, folder):
    async def scenario():
        lock = lock_folder(folder, FILES, 1)
        with pytest.raises(MetadataStoreError, match="another broker"):
            await opened_in(zookeeper_world, folder)
        lock.release()
        store, _ = await opened_in(zookeeper_world, folder)
        await store.close()

    asyncio.run(scenario())


def test_a_mark_that_cannot_be_read(folder):
    folder.mkdir()
    (folder / "moldau-cluster.json").write_text("{")
    with pytest.raises(MetadataStoreError, match=r"moldau-cluster\.json cannot be read"):
        read_owner(FILES, str(folder))


def test_a_broker_with_records_and_groups_moves_and_loses_nothing(zookeeper_world, folder):
    connect = zookeeper_world.server.connect_string + zookeeper_world.layout.root
    with Broker(data=folder) as broker:
        broker.create_topic("kept", 2, retention_ms=123_456_789)
        before = facts_of(broker)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        for number in range(20):
            producer.produce("kept", str(number).encode(), partition=number % 2)
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("kept", 0, 7)], asynchronous=False)
        consumer.close()
    with Broker(data=folder, zookeeper_connect=connect) as broker:
        assert facts_of(broker) == before
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        (committed,) = consumer.committed([TopicPartition("kept", 0)], timeout=60)
        assert committed.offset == 7
        consumer.assign([TopicPartition("kept", 0, 7)])
        values = []
        while len(values) < 3:
            values += [message.value() for message in consumer.consume(3 - len(values), timeout=60)]
        assert values == [b"14", b"16", b"18"]
        consumer.close()
    with pytest.raises(MetadataStoreError, match=r"set zookeeper\.connect"), Broker(data=folder):
        pass


def facts_of(broker):
    """The cluster's id, and of the topic: its id, partitions and settings."""
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import ConfigResource

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 3})
    found = admin.describe_topics(TopicCollection(["kept"]))["kept"].result(60)
    resource = ConfigResource("topic", "kept")
    configs = admin.describe_configs([resource])[resource].result(60)
    cluster = admin.describe_cluster().result(60)
    return cluster.cluster_id, str(found.topic_id), len(found.partitions), configs["retention.ms"].value
