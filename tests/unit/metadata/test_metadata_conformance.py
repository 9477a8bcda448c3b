"""What every metadata store must do. A further store joins by adding a factory to `STORES`."""

import asyncio

import pytest

from moldau.metadata.changes import (
    BrokerRegistered,
    ClusterCreated,
    ConfigsChanged,
    TopicCreated,
    TopicDeleted,
    replay,
)
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.image import EMPTY_IMAGE, PartitionState, ResourceType
from moldau.metadata.store import Registration, VersionConflict

STORES = {"embedded": EmbeddedStore}


@pytest.fixture(params=STORES)
def make(request, tmp_path):
    """Gives stores that share one place, as the lives of one cluster do."""
    return lambda: STORES[request.param](tmp_path / "metadata")


def topic(name, number=1):
    return TopicCreated(name, bytes([number]) * 16, (PartitionState.fresh((1,)),))


def test_a_new_store_is_empty(make):
    async def scenario():
        store = make()
        assert await store.open() == EMPTY_IMAGE
        await store.close()
        await store.close()

    asyncio.run(scenario())


def test_appends_are_versioned_delivered_and_survive(make):
    async def scenario():
        store, seen = make(), []
        await store.open()
        await store.follow(0, lambda version, changes: seen.append((version, list(changes))))
        assert await store.append_if(0, [ClusterCreated("c")]) == 1
        assert await store.append_if(1, [topic("a", 1), topic("b", 2)]) == 2
        assert await store.append_if(2, [TopicDeleted("a")]) == 3
        assert [version for version, _ in seen] == [1, 2, 3]
        assert seen[1][1] == [topic("a", 1), topic("b", 2)]
        await store.close()

        image = EMPTY_IMAGE
        for version, changes in seen:
            image = replay(image, version, changes)
        again = make()
        assert await again.open() == image
        assert set(image.topics) == {"b"}
        assert image.version == 3
        await again.close()

    asyncio.run(scenario())


def test_an_append_on_an_old_version_is_refused_and_leaves_nothing(make):
    async def scenario():
        store = make()
        await store.open()
        await store.append_if(0, [topic("a")])
        with pytest.raises(VersionConflict) as caught:
            await store.append_if(0, [topic("b", 2)])
        assert (caught.value.expected, caught.value.actual) == (0, 1)
        await store.close()
        again = make()
        assert set((await again.open()).topics) == {"a"}
        await again.close()

    asyncio.run(scenario())


def test_of_several_appends_at_once_on_one_version_one_wins(make):
    async def scenario():
        store = make()
        await store.open()
        outcomes = await asyncio.gather(
            *(store.append_if(0, [topic(f"t{n}", n + 1)]) for n in range(5)), return_exceptions=True
        )
        assert outcomes.count(1) == 1
        assert sum(isinstance(outcome, VersionConflict) for outcome in outcomes) == 4
        await store.close()

    asyncio.run(scenario())


def test_following_starts_after_any_version(make):
    async def scenario():
        store, seen = make(), []
        await store.open()
        await store.append_if(0, [ClusterCreated("c")])
        await store.append_if(1, [topic("a")])
        await store.follow(1, lambda version, changes: seen.append(version))
        assert seen == [2]
        await store.append_if(2, [ConfigsChanged(ResourceType.TOPIC, "a", {"retention.ms": "1"})])
        assert seen == [2, 3]
        await store.close()

    asyncio.run(scenario())


def test_broker_epochs_and_controller_epochs_rise(make):
    async def scenario():
        epochs = []
        for _ in range(3):
            store = make()
            image = await store.open()
            broker_epoch = await store.register_broker(Registration(1, {}))
            controller_epoch = await store.elect_controller(1)
            epochs.append((broker_epoch, controller_epoch))
            from moldau.metadata.changes import ControllerElected

            await store.append_if(
                image.version,
                [
                    BrokerRegistered(1, broker_epoch, {"P": ("h", 1)}, None),
                    ControllerElected(1, controller_epoch),
                ],
            )
            await store.close()
        assert epochs == sorted(epochs)
        assert len({broker for broker, _ in epochs}) == len({controller for _, controller in epochs}) == 3

    asyncio.run(scenario())
