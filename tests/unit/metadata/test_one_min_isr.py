"""A new cluster begins with one `min.insync.replicas` for all brokers (KIP-966), in every store."""

import asyncio
import random

import pytest
from test_metadata_conformance import WORLDS, ZOOKEEPER, world_of

from moldau.broker.controller.controller import Controller
from moldau.broker.metadata.image import ResourceType
from moldau.broker.metadata.view import MetadataView
from moldau.common.settings.sources import from_texts


@pytest.fixture(params=[*WORLDS, ZOOKEEPER])
def world(request, tmp_path):
    """A cluster's store, in which several brokers may live, or one after the other."""
    return world_of(request, tmp_path)


async def opened(world, node_id, min_isr):
    static = from_texts({"node.id": str(node_id), "min.insync.replicas": str(min_isr)})
    controller = Controller(node_id, world.make(), MetadataView(), static, random.Random(node_id))
    made = await controller.this_broker.open()
    await world.settle()
    return controller, made


def test_it_is_that_of_the_broker_which_makes_the_cluster(world):
    async def scenario():
        first, made = await opened(world, 1, 2)
        assert made
        assert first.view.image.configs == {(ResourceType.BROKER, ""): {"min.insync.replicas": "2"}}
        await first.this_broker.close()
        second, made = await opened(world, 1, 3)
        try:
            assert not made
            assert second.settings.min_insync_replicas == 2
            assert second.rules("a").min_isr == 2
        finally:
            await second.this_broker.close()

    asyncio.run(scenario())
