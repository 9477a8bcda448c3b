"""The embedded store's file: torn ends, damage, compaction, full disks, the lock."""

import asyncio
import json
import os
import random
from functools import partial
from pathlib import Path

import pytest

from moldau.broker.controller.controller import Controller
from moldau.broker.metadata import embedded
from moldau.broker.metadata.changes import BrokerRegistered, ClusterCreated, ConfigsChanged, TopicCreated
from moldau.broker.metadata.codec import decode_image
from moldau.broker.metadata.embedded import FILE_NAME, EmbeddedStore
from moldau.broker.metadata.frames import MAGIC, frame
from moldau.broker.metadata.image import EMPTY_IMAGE, PartitionState, ResourceType
from moldau.broker.metadata.lock import lock_folder
from moldau.broker.metadata.store import MetadataStoreError, Registration
from moldau.broker.metadata.view import MetadataView
from moldau.common.settings.sources import from_texts

FIXTURES = Path(__file__).parent / "fixtures"


def topic(number):
    return TopicCreated(f"t{number}", number.to_bytes(16, "big"), (PartitionState.fresh((1,)),))


async def filled(folder, count=3, **options):
    store = EmbeddedStore(folder, **options)
    await store.open()
    for number in range(count):
        await store.append_if(number, [topic(number + 1)])
    return store


async def reopened(folder):
    store = EmbeddedStore(folder)
    image = await store.open()
    await store.close()
    return image


def test_a_torn_end_is_cut_off_wherever_it_was_torn(tmp_path):
    async def scenario():
        store = await filled(tmp_path)
        await store.close()
        path = tmp_path / FILE_NAME
        whole = path.read_bytes()
        last = len(frame(b"")) + len(whole[whole.rindex(b'{"version"') :])
        for cut in range(len(whole) - last, len(whole), 7):
            path.write_bytes(whole[:cut])
            assert set((await reopened(tmp_path)).topics) == {"t1", "t2"}
            assert path.stat().st_size == len(whole) - last
        for cut in (0, len(MAGIC)):
            path.write_bytes(whole[:cut])
            assert await reopened(tmp_path) == EMPTY_IMAGE
            assert path.read_bytes() == MAGIC

    asyncio.run(scenario())


def test_a_torn_end_of_zeros_or_noise_is_cut_off(tmp_path):
    async def scenario():
        store = await filled(tmp_path)
        await store.close()
        path = tmp_path / FILE_NAME
        whole = path.read_bytes()
        for tail in (b"\0" * 4096, os.urandom(100), frame(b"{}")[:-1] + b"x"):
            path.write_bytes(whole + tail)
            assert (await reopened(tmp_path)).version == 3
            assert path.read_bytes() == whole

    asyncio.run(scenario())


def test_damage_before_good_entries_is_refused_and_nothing_is_cut(tmp_path):
    async def scenario():
        store = await filled(tmp_path)
        await store.close()
        path = tmp_path / FILE_NAME
        damaged = bytearray(path.read_bytes())
        damaged[len(MAGIC) + 20] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(MetadataStoreError, match="is damaged at byte 18"):
            await reopened(tmp_path)
        assert path.read_bytes() == damaged

    asyncio.run(scenario())


def test_a_foreign_file_and_an_unknown_change_are_refused(tmp_path):
    async def scenario():
        path = tmp_path / FILE_NAME
        path.write_bytes(b"something else altogether")
        with pytest.raises(MetadataStoreError, match="not a metadata file"):
            await reopened(tmp_path)
        path.write_bytes(MAGIC + frame(b'{"version":1,"changes":[["from-the-future",1]]}'))
        with pytest.raises(MetadataStoreError, match="unknown kind 'from-the-future'"):
            await reopened(tmp_path)

    asyncio.run(scenario())


def test_compaction_keeps_the_image_and_the_versions(tmp_path):
    async def scenario():
        store = await filled(tmp_path, count=1, snapshot_min_bytes=1024)
        for number in range(200):
            await store.append_if(
                number + 1, [ConfigsChanged(ResourceType.TOPIC, "t1", {"retention.ms": str(number)})]
            )
        size = (tmp_path / FILE_NAME).stat().st_size
        assert size < 3000
        await store.close()
        image = await reopened(tmp_path)
        assert image.version == 201
        assert image.configs == {(ResourceType.TOPIC, "t1"): {"retention.ms": "199"}}
        assert not list(tmp_path.glob("*.tmp"))

    asyncio.run(scenario())


def test_many_entries_are_folded_into_a_snapshot_at_start(tmp_path, monkeypatch):
    async def scenario():
        monkeypatch.setattr(embedded, "REPLAYED_ENTRIES_MAX", 2)
        store = await filled(tmp_path, count=3)
        await store.close()
        image = await reopened(tmp_path)
        assert b'"snapshot"' in (tmp_path / FILE_NAME).read_bytes()
        assert await reopened(tmp_path) == image

    asyncio.run(scenario())


def test_an_append_that_cannot_be_forced_to_disk_is_taken_back(tmp_path, monkeypatch):
    async def scenario():
        store = await filled(tmp_path)
        before = (tmp_path / FILE_NAME).read_bytes()
        real, failures = os.fsync, [True]

        def failing(descriptor):
            if failures:
                failures.pop()
                raise OSError(28, "No space left on device")
            real(descriptor)

        monkeypatch.setattr(store._files, "sync", failing, raising=False)
        with pytest.raises(OSError, match="No space left"):
            await store.append_if(3, [topic(4)])
        assert (tmp_path / FILE_NAME).read_bytes() == before
        assert await store.append_if(3, [topic(5)]) == 4
        await store.close()
        assert set((await reopened(tmp_path)).topics) == {"t1", "t2", "t3", "t5"}

    asyncio.run(scenario())


def test_a_folder_serves_one_broker_at_a_time(tmp_path):
    async def scenario():
        first = await filled(tmp_path, lock=partial(lock_folder, process_id=4711))
        with pytest.raises(MetadataStoreError, match=r"another broker \(process 4711\) uses"):
            await EmbeddedStore(tmp_path).open()
        await first.close()
        assert (await reopened(tmp_path)).version == 3

    asyncio.run(scenario())


def test_a_folder_belongs_to_one_node_id(tmp_path):
    async def scenario():
        store = EmbeddedStore(tmp_path)
        await store.open()
        await store.append_if(0, [ClusterCreated("c"), BrokerRegistered(1, 1, {}, None)])
        with pytest.raises(MetadataStoreError, match=r"belongs to broker 1, but node.id is 2; set node.id=1"):
            await store.register_broker(Registration(2, {}))
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["single_broker", "single_broker_compacted", "several_brokers"])
def test_a_file_of_an_earlier_version_opens_with_the_image_that_it_had(tmp_path, name):
    """The files and the images (as JSON) were written by the code from before the controller wrote down
    who leads: replaying a registration raised leader epochs then."""

    async def scenario():
        (tmp_path / FILE_NAME).write_bytes((FIXTURES / f"{name}.log").read_bytes())
        image = await reopened(tmp_path)
        assert image == decode_image(json.loads((FIXTURES / f"{name}.json").read_bytes()))
        assert any(state.leader_epoch for topic in image.topics.values() for state in topic.partitions)

    asyncio.run(scenario())


def test_a_file_of_an_earlier_version_is_gone_on_with(tmp_path):
    async def scenario():
        (tmp_path / FILE_NAME).write_bytes((FIXTURES / "single_broker.log").read_bytes())
        before = await reopened(tmp_path)
        for starts in (1, 2):
            static = from_texts({"node.id": "1"})
            controller = Controller(1, EmbeddedStore(tmp_path), MetadataView(), static, random.Random(5))
            await controller.this_broker.open()
            await controller.this_broker.register({"PLAINTEXT": ("127.0.0.1", 9092)})
            for name, topic in controller.view.image.topics.items():
                for state, old in zip(topic.partitions, before.topics[name].partitions, strict=True):
                    assert state == old._replace(
                        leader_epoch=old.leader_epoch + starts, partition_epoch=old.partition_epoch + starts
                    )
            last = controller.view.image
            await controller.this_broker.close()
            assert await reopened(tmp_path) == last

    asyncio.run(scenario())
